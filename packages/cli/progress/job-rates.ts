/** How fast a job goes, from its own counters over the last seconds, and how long it may still take. Pure. */
import type { ProgressSnapshot, ProgressTotals } from '@holdfast/client/internal';

interface Sample {
  readonly at: number;
  readonly files: number;
  /** bytes that took work: read while scanning, sent or received later; bytes that were there already took none */
  readonly bytes: number;
}

export interface Rates {
  readonly bytesPerSecond: number;
  /** undefined while nothing can be said */
  readonly remainingMs: number | undefined;
}

export class JobRates {
  #samples: Sample[] = [];
  #phase: string | undefined;
  #shown: { readonly at: number; readonly remainingMs: number } | undefined;

  /** Takes in what is known at `at` (ms) and says what follows from it. */
  add(at: number, snapshot: ProgressSnapshot): Rates {
    const { phase, counters } = snapshot;
    if (phase !== this.#phase && (phase === 'scan' || this.#phase === 'scan')) {
      this.#samples = [];
      this.#shown = undefined;
    }
    this.#phase = phase;
    const { done, whole } = amountsOf(snapshot);
    const sample = {
      at,
      files: done.files,
      bytes: phase === 'scan' ? done.bytes : counters.bytes - counters.deduplicatedBytes,
    };
    this.#samples.push(sample);
    while ((this.#samples[0] as Sample).at < at - 8_000) this.#samples.shift();
    const first = this.#samples[0] as Sample;
    const seconds = (at - first.at) / 1_000;
    if (seconds < 1 || phase === 'commit' || isAllRead(snapshot))
      return { bytesPerSecond: 0, remainingMs: undefined };
    const bytesPerSecond = (sample.bytes - first.bytes) / seconds;
    const filesPerSecond = (sample.files - first.files) / seconds;
    if (whole.bytes === undefined) return { bytesPerSecond, remainingMs: undefined };
    // The rest may turn out to be there already, so this is an upper bound that shrinks.
    const waits = [
      secondsFor(whole.bytes - done.bytes, bytesPerSecond),
      secondsFor((whole.files ?? done.files) - done.files, filesPerSecond),
    ];
    return { bytesPerSecond, remainingMs: this.#settle(at, Math.max(...waits) * 1_000) };
  }

  /** The estimate to show at `at` if `estimateMs` is left by the rates of the last seconds. */
  #settle(at: number, estimateMs: number): number | undefined {
    const shown = this.#shown;
    const isFirst = shown === undefined || estimateMs === 0;
    const expectedMs = isFirst ? estimateMs : Math.max(0, shown.remainingMs - (at - shown.at));
    // The estimate that is shown counts down meanwhile: a number that jumps tells nothing.
    const weight = isFirst ? 1 : Math.min(1, (at - shown.at) / 4_000);
    const remainingMs = expectedMs + (estimateMs - expectedMs) * weight;
    // A longer estimate only shows one slow moment, such as small files before a large one, so none is given.
    this.#shown = remainingMs <= 99 * 3_600_000 ? { at, remainingMs } : undefined;
    return this.#shown?.remainingMs;
  }
}

/** The work done and the whole; while a tree is read, the part that is read. It may have grown since it was looked at. */
export function amountsOf({ phase, counters, totals }: ProgressSnapshot): {
  readonly done: { readonly files: number; readonly bytes: number };
  readonly whole: ProgressTotals;
} {
  if (phase !== 'scan') return { done: counters, whole: totals };
  const { files = 0, bytes = 0, surveyedFiles, surveyedBytes } = totals;
  const atLeast = (surveyed: number | undefined, read: number): number | undefined =>
    surveyed === undefined ? undefined : Math.max(surveyed, read);
  return {
    done: { files, bytes },
    whole: { files: atLeast(surveyedFiles, files), bytes: atLeast(surveyedBytes, bytes) },
  };
}

/** Everything was read, and the rest is only sent, as over a slow line: then the rate of reading tells nothing of the time left. */
export function isAllRead(snapshot: ProgressSnapshot): boolean {
  const { done, whole } = amountsOf(snapshot);
  return snapshot.phase === 'scan' && whole.bytes !== undefined && done.bytes >= whole.bytes;
}

function secondsFor(left: number, perSecond: number): number {
  return left <= 0 ? 0 : left / perSecond;
}
