/** Makes the spans of answered requests. Whether a request is sampled is decided at its end. */

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import {
  type Attributes,
  type AttributeValue,
  encodeAttributes,
  encodeExport,
  encodeTime,
  OTLP,
  type OtlpSpan,
} from './span.ts';
import { type Sent, SpanQueue } from './span-queue.ts';
import { isKept, parseTraceParent } from './trace-context.ts';
import { parseTraceSettings, type TraceSettings } from './trace-settings.ts';

/** Instants are of `performance.now()`. */
interface TracedStep {
  readonly name: string;
  /** of its first call */
  readonly startedAt: number;
  /** of its last call */
  readonly endedAt: number;
  readonly calls: number;
}

export interface TracedRequest {
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly status: number;
  /** no token, no header, no path with ids */
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly steps: readonly TracedStep[];
}

export interface Tracer {
  /** `describe` is called only for a sampled request. */
  record(traceParent: string | null, describe: () => TracedRequest): void;
  /** Sends the rest, within a time limit. */
  close(): Promise<void>;
}

interface TracerOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly worker: number;
  readonly reportFailure: (reason: string) => void;
}

/** Throws ConfigError. */
export function openTracer({ env, version, worker, reportFailure }: TracerOptions): Tracer {
  const settings: TraceSettings = parseTraceSettings(env);
  const resource = {
    'service.instance.id': crypto.randomUUID(),
    'service.version': version,
    ...settings.resource,
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.name': 'holdfast',
    'telemetry.sdk.version': version,
    'process.pid': process.pid,
    'holdfast.worker': worker,
  };
  const queue = new SpanQueue({
    batchMs: settings.batchMs,
    reportFailure,
    send: (spans, signal) => sendSpans(settings, { resource, version }, spans, signal),
  });
  return {
    record(traceParent, describe) {
      const parent = parseTraceParent(traceParent);
      const traceId = parent?.traceId ?? randomHex(16);
      if (isKept(settings.sampler, traceId, parent))
        queue.add(makeSpans(traceId, parent?.spanId, describe()));
    },
    close: () => queue.close(),
  };
}

function makeSpans(traceId: string, parentSpanId: string | undefined, request: TracedRequest): OtlpSpan[] {
  // Computed each time, because the machine's clock may be set.
  const epochMs = Date.now() - performance.now();
  const time = (at: number): string => encodeTime(epochMs + at);
  const spanId = randomHex(8);
  const span: OtlpSpan = {
    ...{ traceId, spanId, name: request.name, kind: OTLP.server },
    ...(parentSpanId === undefined ? { flags: OTLP.local } : { flags: OTLP.remote, parentSpanId }),
    startTimeUnixNano: time(request.startedAt),
    endTimeUnixNano: time(request.endedAt),
    attributes: encodeAttributes(request.attributes),
    status: request.status >= 500 ? { code: OTLP.error } : {},
  };
  const steps = request.steps.map(({ name, startedAt, endedAt, calls }): OtlpSpan => {
    return {
      ...{ traceId, spanId: randomHex(8), parentSpanId: spanId, flags: OTLP.local },
      ...{ name, kind: OTLP.internal },
      startTimeUnixNano: time(startedAt),
      endTimeUnixNano: time(endedAt),
      attributes: encodeAttributes({ 'holdfast.calls': calls > 1 ? calls : undefined }),
      status: {},
    };
  });
  return [span, ...steps];
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('hex');
}

/** Statuses after which OTLP wants the spans to be sent again. */
const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);

const compress = promisify(gzip);

/** One OTLP/HTTP request with JSON. Its errors contain neither the address nor a header. */
async function sendSpans(
  { url, headers, timeoutMs, compression }: TraceSettings,
  { resource, version }: { readonly resource: Attributes; readonly version: string },
  spans: readonly OtlpSpan[],
  ending: AbortSignal,
): Promise<Sent> {
  try {
    const isPacked = compression === 'gzip';
    const body = encodeExport(resource, version, spans);
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      },
      body: isPacked ? await compress(body) : body,
      // The headers are for this receiver alone.
      redirect: 'manual',
      signal: AbortSignal.any([ending, AbortSignal.timeout(timeoutMs)]),
    });
    const text = await answer.text();
    if (answer.ok) return judgeAnswer(text, spans.length);
    return { kind: AGAIN.has(answer.status) ? 'again' : 'refused', reason: `HTTP ${answer.status}` };
  } catch (error) {
    const { code, name } = error as { code?: unknown; name?: unknown };
    return { kind: 'again', reason: String(typeof code === 'string' ? code : name) };
  }
}

/** A receiver may accept a part; it then reports how many spans it rejected. */
function judgeAnswer(text: string, sent: number): Sent {
  let rejected = 0;
  try {
    const body = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: unknown } } | null;
    rejected = Number(body?.partialSuccess?.rejectedSpans ?? 0);
  } catch {
    // The status says that it was accepted.
  }
  if (!(rejected > 0)) return { kind: 'sent' };
  return { kind: 'refused', reason: 'spans were refused', spans: Math.min(rejected, sent) };
}
