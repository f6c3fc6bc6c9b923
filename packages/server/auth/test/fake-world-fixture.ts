/** Time and network under the control of a test. */
import type { AuthWorld } from '../auth-world.ts';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

export class FakeWorld implements AuthWorld {
  /** wall clock, ms; moves with `advance` and may be set */
  wallMs = Date.UTC(2026, 0, 1);
  #monotonicMs = 1000;
  readonly #timers = new Set<Timer>();
  /** handles the next fetches; a test replaces it */
  answer: (url: string, init: BunFetchRequestInit) => Promise<Response> = async () => {
    throw new Error('no network in this test');
  };
  fetchCount = 0;
  /** resolves the host of every URL; a test replaces it */
  resolve = async (_hostname: string): Promise<readonly string[]> => ['192.0.2.1'];

  now(): number {
    return this.wallMs;
  }

  monotonicNow(): number {
    return this.#monotonicMs;
  }

  schedule(callback: () => void, delayMs: number): () => void {
    const timer = { at: this.#monotonicMs + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  fetch = (url: string, init: BunFetchRequestInit): Promise<Response> => {
    this.fetchCount++;
    return this.answer(url, init);
  };

  get timerCount(): number {
    return this.#timers.size;
  }

  /** Advances time and runs the timers that fall due, in order. */
  async advance(ms: number): Promise<void> {
    const until = this.#monotonicMs + ms;
    await settle();
    for (;;) {
      const next = [...this.#timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#move(next.at);
      next.callback();
      await settle();
    }
    this.#move(until);
  }

  /** Advances time as for a process without CPU time: timers fire late. */
  stall(ms: number): void {
    this.#move(this.#monotonicMs + ms);
  }

  #move(monotonicMs: number): void {
    this.wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = Math.max(this.#monotonicMs, monotonicMs);
  }
}

/** Runs everything that is ready, small response bodies included. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
