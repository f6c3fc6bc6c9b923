/** Makes the spans of answered requests. Whether a request is sampled is decided at its end. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { TRACE_SPANS_DROPPED } from '../metrics/server-metrics.ts';
import { isKept, parseTraceParent } from './trace-context.ts';
import { parseTraceSettings, type TraceSettings } from './trace-settings.ts';

const BATCH_SPANS_MAX = 512;
/** How long the shutdown waits for the last spans. */
const LAST_SPANS_MS_MAX = 2000;

/** `again`: the receiver is unavailable or overloaded. `refused`: a retry would be refused too. */
export type Sent =
  | { readonly kind: 'sent' }
  | { readonly kind: 'again' | 'refused'; readonly reason: string; readonly spans?: number };

interface SpanQueueOptions {
  readonly batchMs: number;
  readonly send: (spans: readonly OtlpSpan[], signal: AbortSignal) => Promise<Sent>;
  readonly reportFailure: (reason: string) => void;
}

/** Sends spans in batches, one at a time, without blocking. Spans beyond the queue are dropped and counted. */
export class SpanQueue {
  readonly #options: SpanQueueOptions;
  readonly #ending = new AbortController();
  #spans: OtlpSpan[] = [];
  #sending: Promise<Sent> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** 0: the receiver answers */
  #retryMs = 0;
  #isClosed = false;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }

  /** Takes all spans of one request or none. */
  add(spans: readonly OtlpSpan[]): void {
    if (this.#isClosed || this.#spans.length + spans.length > 8192) {
      TRACE_SPANS_DROPPED.add({ reason: 'no_room' }, spans.length);
      return;
    }
    this.#spans.push(...spans);
    if (this.#sending !== undefined || this.#retryMs > 0) return;
    if (this.#spans.length >= BATCH_SPANS_MAX) this.#begin();
    else this.#schedule(this.#options.batchMs);
  }

  /** Sends the rest while the receiver accepts it, within `LAST_SPANS_MS_MAX`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    const deadline = setTimeout(() => this.#ending.abort(), LAST_SPANS_MS_MAX);
    let last: Sent | undefined = await this.#sending;
    while (this.#spans.length > 0 && last?.kind !== 'again' && !this.#ending.signal.aborted)
      last = await this.#sendBatch();
    clearTimeout(deadline);
    if (this.#spans.length > 0) TRACE_SPANS_DROPPED.add({ reason: 'ended' }, this.#spans.length);
    this.#spans = [];
  }

  #schedule(delayMs: number): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => this.#begin(), delayMs);
    this.#timer.unref();
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending = this.#sendBatch();
    void this.#sending.then(() => {
      this.#sending = undefined;
      if (this.#isClosed || this.#spans.length === 0) return;
      if (this.#retryMs > 0) this.#schedule(this.#retryMs);
      else if (this.#spans.length >= BATCH_SPANS_MAX) this.#begin();
      else this.#schedule(this.#options.batchMs);
    });
  }

  async #sendBatch(): Promise<Sent> {
    const batch = this.#spans.slice(0, BATCH_SPANS_MAX);
    const sent = await this.#options.send(batch, this.#ending.signal);
    if (sent.kind !== 'sent') this.#options.reportFailure(sent.reason);
    if (sent.kind === 'again') {
      this.#retryMs = Math.min(Math.max(2 * this.#retryMs, 1000), 30_000);
      return sent;
    }
    this.#retryMs = 0;
    this.#spans.splice(0, batch.length);
    if (sent.kind === 'refused') TRACE_SPANS_DROPPED.add({ reason: 'refused' }, sent.spans ?? batch.length);
    return sent;
  }
}

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

type AttributeValue = string | number | undefined;
type Attributes = Readonly<Record<string, AttributeValue>>;

type OtlpValue = { readonly stringValue: string } | { readonly intValue: string };

export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: OtlpValue }[];
  readonly status: { readonly code?: number };
}

/** Numbers of OTLP. `local` and `remote` say where the parent of a sampled span is. */
const OTLP = { internal: 1, server: 2, error: 2, local: 0x101, remote: 0x301 } as const;

/** Undefined attributes are omitted. Numbers are integers. */
function encodeAttributes(attributes: Attributes): OtlpSpan['attributes'] {
  return Object.entries(attributes).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }];
  });
}

/** Whole microseconds: a float of milliseconds since the epoch holds no more. */
const encodeTime = (atMs: number): string => `${Math.round(atMs * 1000)}000`;

function encodeExport(resource: Attributes, version: string, spans: readonly OtlpSpan[]): string {
  const scopeSpans = [{ scope: { name: 'holdfast', version }, spans }];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: encodeAttributes(resource) }, scopeSpans }],
  });
}
