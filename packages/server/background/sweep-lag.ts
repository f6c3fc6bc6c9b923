/** The sweep lag, reported by the process that has the sweep's turn only. */
import { METRICS, SWEEP_LAG } from '../metrics/server-metrics.ts';

export class SweepLag {
  /** monotonic ms when nothing was left to do, or when the turn began; undefined if another process has the turn */
  #caughtUpAt: number | undefined;
  readonly stop: () => void;

  constructor() {
    this.stop = METRICS.readBefore(() => {
      const lagMs = this.#caughtUpAt === undefined ? 0 : performance.now() - this.#caughtUpAt;
      SWEEP_LAG.set(lagMs / 1000);
    });
  }

  isOurs(): void {
    this.#caughtUpAt ??= performance.now();
  }

  isOfAnother(): void {
    this.#caughtUpAt = undefined;
  }

  hasCaughtUp(): void {
    this.#caughtUpAt = performance.now();
  }
}
