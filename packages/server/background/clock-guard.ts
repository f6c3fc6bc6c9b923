/**
 * Compares the clocks that collection rests on: of this process, of the rows (which judges leases) and of the store of bytes. A
 * clock that has jumped makes leases look expired, so nothing is collected or swept while clocks disagree by minutes.
 */
import { formatDuration } from '@holdfast/protocol';
import type { ClockGuard } from '../core/clock-guard.ts';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { CLOCK_SKEW } from '../metrics/server-metrics.ts';

/** Collection and sweep wait until the clocks agree again; everything else goes on. */
class ClocksDisagree extends StoreUnavailable {
  override readonly name = 'ClocksDisagree';
}

export interface ClockSources {
  readonly rows: Pick<MetadataStore, 'readClock'>;
  readonly bytes: Pick<ContentStore, 'readClockSkew'>;
  /** ms since the epoch by this process */
  readonly now: () => number;
  readonly skewMsMax: number;
}

export class ComparedClocks implements ClockGuard {
  readonly #sources: ClockSources;

  constructor(sources: ClockSources) {
    this.#sources = sources;
  }

  async assertAgree(): Promise<void> {
    const { rows, bytes, now } = this.#sources;
    const before = now();
    const rowsNow = await rows.readClock();
    // The answer was made at some time between.
    const rowsMs = rowsNow - (before + now()) / 2;
    const bytesMs = await bytes.readClockSkew?.();
    const problems = [
      this.#judge('the database', 'rows', rowsMs),
      this.#judge('the object store', 'bytes', bytesMs),
    ];
    const problem = problems.find((each) => each !== undefined);
    if (problem !== undefined) throw new ClocksDisagree(problem);
  }

  #judge(owner: string, source: string, skewMs: number | undefined): string | undefined {
    if (skewMs === undefined) return undefined;
    CLOCK_SKEW.set({ source }, skewMs / 1000);
    const { skewMsMax } = this.#sources;
    if (Math.abs(skewMs) <= skewMsMax) return undefined;
    const direction = skewMs > 0 ? 'ahead of' : 'behind';
    // By how much is in the metric; here it would make each line of the log another one.
    return `the clock of ${owner} is more than ${formatDuration(skewMsMax)} ${direction} this server's: nothing is collected or swept until they agree; set both by NTP`;
  }
}

interface SteadySources extends Omit<ClockSources, 'bytes'> {
  readonly onClockSet: (message: string) => void;
}

/**
 * The guard of rows whose clock cannot be set (engine/steady-clock.ts): what has run out by it has run out, so collection goes on. It
 * says once if the wall clock was set, because callers compare what the server answers with theirs.
 */
export class SteadyRows implements ClockGuard {
  readonly #sources: SteadySources;
  #isSet = false;

  constructor(sources: SteadySources) {
    this.#sources = sources;
  }

  async assertAgree(): Promise<void> {
    const { rows, now, skewMsMax, onClockSet } = this.#sources;
    const skewMs = (await rows.readClock()) - now();
    CLOCK_SKEW.set({ source: 'rows' }, skewMs / 1000);
    const wasSet = this.#isSet;
    this.#isSet = Math.abs(skewMs) > skewMsMax;
    if (!this.#isSet || wasSet) return;
    onClockSet(
      `the machine's clock was set: it is more than ${formatDuration(skewMsMax)} ${skewMs > 0 ? 'behind' : 'ahead of'} the time of this server, by which leases go on and keep their length; a restart takes the new time over`,
    );
  }
}
