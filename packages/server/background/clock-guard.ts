/**
 * Compares the clocks that collection rests on: of this process, of the rows (which judges leases) and of the store of bytes. A
 * clock that has jumped makes leases look expired, so nothing is collected or swept while clocks disagree by minutes.
 */
import type { ClockGuard } from '../core/clock-guard.ts';
import { type ContentStore, type MetadataStore, StoreUnavailable } from '../core/ports.ts';
import { CLOCK_SKEW } from '../metrics/server-metrics.ts';

/** Clocks that are kept by NTP differ by milliseconds; requests across a network may take seconds. */
export const CLOCK_SKEW_MS_MAX = 2 * 60_000;
/** A comparison holds so long, ms. */
const LOOK_MS = 5000;

/** Collection and sweep wait until the clocks agree again; everything else goes on. */
class ClocksDisagree extends StoreUnavailable {
  override readonly name = 'ClocksDisagree';
}

export interface ComparedClocks {
  readonly rows: Pick<MetadataStore, 'readClock'>;
  readonly bytes: Pick<ContentStore, 'clockSkewMs'>;
  /** ms since the epoch by this process */
  readonly now: () => number;
}

export class SampledClocks implements ClockGuard {
  readonly #clocks: ComparedClocks;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #problem: string | undefined;

  constructor(clocks: ComparedClocks) {
    this.#clocks = clocks;
  }

  async assertAgree(): Promise<void> {
    if (performance.now() - this.#lookedAt >= LOOK_MS) await this.#look();
    if (this.#problem !== undefined) throw new ClocksDisagree(this.#problem);
  }

  async #look(): Promise<void> {
    const { rows, bytes, now } = this.#clocks;
    const before = now();
    const rowsNow = await rows.readClock();
    // The answer was made at some time between.
    const rowsMs = rowsNow - (before + now()) / 2;
    const bytesMs = bytes.clockSkewMs;
    this.#lookedAt = performance.now();
    this.#problem = judge('the database', 'rows', rowsMs) ?? judge('the object store', 'bytes', bytesMs);
  }
}

function judge(owner: string, source: string, skewMs: number | undefined): string | undefined {
  if (skewMs === undefined) return undefined;
  CLOCK_SKEW.set({ source }, skewMs / 1000);
  if (Math.abs(skewMs) <= CLOCK_SKEW_MS_MAX) return undefined;
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  const direction = skewMs > 0 ? 'ahead of' : 'behind';
  return `the clock of ${owner} is ${seconds} s ${direction} this server's: nothing is collected or swept until they agree; set both by NTP`;
}
