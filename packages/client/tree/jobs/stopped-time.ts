/** The time in which this process did not run, because it was stopped (Ctrl-Z) or its machine slept. */

/** Learns of it from ticks that should come every `intervalMs`. Nothing else tells: a process is not asked before it is stopped. */
export class StoppedTime {
  readonly #intervalMs: number;
  readonly #onStop: (ms: number) => void;
  /** the last time that the process is known to have run */
  #ranAt: number;
  #totalMs = 0;

  /** `onStop` is told how long each stop took. */
  constructor(startedAt: number, intervalMs: number, onStop: (ms: number) => void) {
    this.#ranAt = startedAt;
    this.#intervalMs = intervalMs;
    this.#onStop = onStop;
  }

  /** The process runs at `at`, a tick or not; all of the time until then in which it did not, ms. */
  upTo(at: number): number {
    const lateMs = at - this.#ranAt - this.#intervalMs;
    this.#ranAt = at;
    // A busy process is late by less.
    if (lateMs >= 2_000) {
      this.#totalMs += lateMs;
      this.#onStop(lateMs);
    }
    return this.#totalMs;
  }
}
