/** Time that passes only when the test says so; timers fire in their order, as time reaches them. */
import type { Clock } from '../deadline.ts';

export class ManualClock implements Clock {
  #now = 1_800_000_000_000;
  /** Timers count time that passed while awake, as runtimes' do. */
  #awake = 0;
  readonly #timers = new Set<{ readonly dueAwake: number; readonly onFire: () => void }>();

  now(): number {
    return this.#now;
  }

  startTimer(ms: number, onFire: () => void): () => void {
    const timer = { dueAwake: this.#awake + Math.max(0, ms), onFire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get runningTimers(): number {
    return this.#timers.size;
  }

  /** Lets `ms` pass, firing what is due on the way; what a timer starts has settled before the next one fires. */
  async advance(ms: number): Promise<void> {
    const endAwake = this.#awake + ms;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter(({ dueAwake }) => dueAwake <= endAwake);
      const [next] = due.toSorted((a, b) => a.dueAwake - b.dueAwake);
      if (next === undefined) break;
      this.#pass(next.dueAwake - this.#awake);
      this.#timers.delete(next);
      next.onFire();
      await settle();
    }
    this.#pass(endAwake - this.#awake);
  }

  /** The machine slept, or someone set its clock (back, when negative): `now` jumps, no timer notices. */
  jump(ms: number): void {
    this.#now += ms;
  }

  #pass(ms: number): void {
    this.#now += ms;
    this.#awake += ms;
  }
}

/** Everything that is ready to run has run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
