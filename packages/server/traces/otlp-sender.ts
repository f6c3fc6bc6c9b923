/** One OTLP/HTTP request with JSON. Its errors contain neither the address nor a header. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Attributes, encodeExport, type OtlpSpan } from './span.ts';
import type { Sent } from './span-queue.ts';
import type { TraceSettings } from './trace-settings.ts';

/** Statuses after which OTLP wants the spans to be sent again. */
const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);

const compress = promisify(gzip);

export async function sendSpans(
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
