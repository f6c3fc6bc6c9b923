/** Time that passes by itself when someone waits, and never on its own. */
import type { Clock } from '../deadline.ts';

/** Waits are shorter than this, time limits (`FAR_TIMEOUTS`) longer: a limit passes only by `expire`. */
const WAIT_MS_MAX = 1_000_000;

/** Time limits that no test reaches unless it calls `expire`. */
export const FAR_TIMEOUTS = { answerMs: 2e6, gcMs: 3e6, packMs: 3e6, uploadMs: 4e6, contentIdleMs: 5e6 };

export class FakeClock implements Clock {
  /** every wait, ms, in order */
  readonly waits: number[] = [];
  readonly #limits = new Set<() => void>();
  #now = 1_800_000_000_000;

  now(): number {
    return this.#now;
  }

  startTimer(ms: number, onFire: () => void): () => void {
    if (ms < WAIT_MS_MAX) {
      this.waits.push(ms);
      this.#now += ms;
      const timer = setTimeout(onFire, 0);
      return () => clearTimeout(timer);
    }
    this.#limits.add(onFire);
    return () => this.#limits.delete(onFire);
  }

  /** How many time limits are running. */
  get runningLimits(): number {
    return this.#limits.size;
  }

  /** Every running time limit passes. */
  expire(): void {
    const limits = [...this.#limits];
    this.#limits.clear();
    for (const onFire of limits) onFire();
  }
}
