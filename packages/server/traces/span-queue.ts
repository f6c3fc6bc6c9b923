/** Sends spans in batches, one at a time, without blocking. Spans beyond the queue are dropped and counted. */
import { TRACE_SPANS_DROPPED } from '../metrics/server-metrics.ts';
import type { OtlpSpan } from './span.ts';

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
