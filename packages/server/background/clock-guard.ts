/**
 * Compares the clocks that collection depends on: of this process, of the rows (by which leases are judged) and of the store of bytes. A
 * clock that jumped ahead makes leases look expired. So nothing is collected or swept while clocks disagree by minutes.
 */
import { formatDuration, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { ClockGuard } from '../core/upkeep-ports.ts';
import { CLOCK_SKEW } from '../metrics/server-metrics.ts';

/** Collection and sweep wait until the clocks agree; everything else continues. */
class ClocksDisagree extends StoreUnavailable {
  override readonly name = 'ClocksDisagree';
}

export interface ClockSources {
  readonly rows: Pick<MetadataStore, 'readClock'>;
  readonly bytes: Pick<ContentStore, 'readClockSkew'>;
  /** ms since the epoch by this process */
  readonly now: () => number;
  /** monotonic ms */
  readonly elapsed: () => number;
  readonly skewMsMax: number;
}

/** How far the rows' clock was ahead of elapsed time at least, since the oldest lease that may be valid. It shows jumps of both clocks. */
class RowsLow {
  /** each the lowest since its instant, in ascending order */
  readonly #lows: { readonly from: number; readonly aheadMs: number }[] = [];

  /** `aheadMs`: an upper bound of the lead. Returns the lowest value. */
  note(aheadMs: number, at: number): number {
    const lows = this.#lows;
    let from = at;
    while ((lows.at(-1)?.aheadMs ?? Number.NEGATIVE_INFINITY) > aheadMs) from = lows.pop()?.from ?? from;
    // Tolerates clock drift.
    if (aheadMs - (lows.at(-1)?.aheadMs ?? Number.NEGATIVE_INFINITY) >= 1000) lows.push({ from, aheadMs });
    while ((lows[1]?.from ?? at) < at - LEASE_DURATION_MS_MAX) lows.shift();
    return lows[0]?.aheadMs ?? aheadMs;
  }
}

export class ComparedClocks implements ClockGuard {
  readonly #sources: ClockSources;
  readonly #low = new RowsLow();

  constructor(sources: ClockSources) {
    this.#sources = sources;
  }

  async assertAgree(): Promise<number> {
    const { rows, bytes, now, elapsed, skewMsMax } = this.#sources;
    const before = now();
    const elapsedBefore = elapsed();
    const rowsNow = await rows.readClock();
    const elapsedNow = elapsed();
    // The answer was made between the two readings. Its delay is not a jump.
    const low = this.#low.note(rowsNow - elapsedBefore, elapsedNow);
    const steadyNow = Math.min(rowsNow, low + elapsedNow);
    const rowsMs = rowsNow - (before + now()) / 2;
    const bytesMs = await bytes.readClockSkew?.();
    const problems = [
      this.#judge('the database', 'rows', rowsMs),
      this.#judge('the object store', 'bytes', bytesMs),
      rowsNow - steadyNow <= skewMsMax ? undefined : JUMPED,
    ];
    const problem = problems.find((each) => each !== undefined);
    if (problem !== undefined) throw new ClocksDisagree(problem);
    // A limit above the longest lease disables the guard: leases follow the clock of the rows, which tests advance.
    const judgedAt = skewMsMax > LEASE_DURATION_MS_MAX ? rowsNow : steadyNow;
    // Rows hold whole milliseconds; an earlier instant is safe.
    return Math.floor(judgedAt);
  }

  #judge(owner: string, source: string, skewMs: number | undefined): string | undefined {
    if (skewMs === undefined) return undefined;
    CLOCK_SKEW.set({ source }, skewMs / 1000);
    const { skewMsMax } = this.#sources;
    if (Math.abs(skewMs) <= skewMsMax) return undefined;
    const direction = skewMs > 0 ? 'ahead of' : 'behind';
    // The metric has the difference. A number here would make each log line different.
    return `the clock of ${owner} is more than ${formatDuration(skewMsMax)} ${direction} this server's: nothing is collected or swept until they agree; set both by NTP`;
  }
}

const JUMPED = `the clock of the database has jumped ahead of what really elapsed: nothing is collected or swept until the leases of before have run out, ${formatDuration(LEASE_DURATION_MS_MAX)} later at most, or it is set back; a restart takes the new time over`;

interface SteadySources extends Omit<ClockSources, 'elapsed'> {
  readonly onClockSet: (message: string) => void;
}

/** For rows whose clock cannot be set (engine/steady-clock.ts), so collection goes on. Reports once if the wall clock was set. */
export class SteadyRows implements ClockGuard {
  readonly #sources: SteadySources;
  #isSet = false;

  constructor(sources: SteadySources) {
    this.#sources = sources;
  }

  async assertAgree(): Promise<number> {
    const { rows, bytes, now, skewMsMax, onClockSet } = this.#sources;
    const rowsNow = await rows.readClock();
    const skewMs = rowsNow - now();
    CLOCK_SKEW.set({ source: 'rows' }, skewMs / 1000);
    // No deletion depends on the clock of the store.
    const bytesMs = await bytes.readClockSkew?.();
    if (bytesMs !== undefined) CLOCK_SKEW.set({ source: 'bytes' }, bytesMs / 1000);
    const wasSet = this.#isSet;
    this.#isSet = Math.abs(skewMs) > skewMsMax;
    if (!this.#isSet || wasSet) return rowsNow;
    onClockSet(
      `the machine's clock was set: it is more than ${formatDuration(skewMsMax)} ${skewMs > 0 ? 'behind' : 'ahead of'} the time of this server, by which leases go on and keep their length; a restart takes the new time over`,
    );
    return rowsNow;
  }
}
