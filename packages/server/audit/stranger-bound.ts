/** One limit for the lines of all unverified callers, so that strangers cannot fill the disk. A line reports how many were left out. */
import { SECOND_MS } from '@holdfast/protocol';
import type { RepeatsWorld } from '../log-repeats.ts';
import { AUDIT_SUPPRESSED } from '../metrics/server-metrics.ts';

export class StrangerBound {
  readonly #world: RepeatsWorld;
  readonly #bytesPerMs: number;
  readonly #burstBytes: number;
  readonly #summarize: (suppressed: number) => void;
  #leftBytes: number;
  #filledAt: number;
  #suppressed = 0;
  #isScheduled = false;

  /** `summarize` writes the line about the omitted ones. */
  constructor(processes: number, summarize: (suppressed: number) => void, world: RepeatsWorld) {
    this.#world = world;
    this.#summarize = summarize;
    // All processes of a server share this limit.
    const bytesPerSecond = (16 * 1024) / processes;
    this.#bytesPerMs = bytesPerSecond / SECOND_MS;
    // After a quiet time, 8 seconds' worth may come at once.
    this.#burstBytes = bytesPerSecond * 8;
    this.#leftBytes = this.#burstBytes;
    this.#filledAt = world.now();
  }

  /** Whether a line of this length, standing for `events`, may be written; if not, they are counted. */
  admits(bytes: number, events: number): boolean {
    const now = this.#world.now();
    const filled = this.#leftBytes + (now - this.#filledAt) * this.#bytesPerMs;
    this.#leftBytes = Math.min(this.#burstBytes, filled);
    this.#filledAt = now;
    if (bytes <= this.#leftBytes) {
      this.#leftBytes -= bytes;
      return true;
    }
    AUDIT_SUPPRESSED.add(events);
    this.#suppressed += events;
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      // Every line is written within a second.
      this.#world.schedule(() => {
        this.#isScheduled = false;
        this.flush();
      }, 500);
    }
    return false;
  }

  /** Reports the count so far. */
  flush(): void {
    const suppressed = this.#suppressed;
    this.#suppressed = 0;
    if (suppressed > 0) this.#summarize(suppressed);
  }
}
