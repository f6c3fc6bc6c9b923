/** Bounds what is under way at once: requests, tasks or bytes. First come, first served. */
import { abortable } from './deadline.ts';

export class Semaphore {
  readonly #limit: () => number;
  readonly #waiting: { readonly weight: number; readonly start: () => void }[] = [];
  readonly #onIdle: (() => void)[] = [];
  #taken = 0;

  /** A function may change the limit at any time. */
  constructor(limit: number | (() => number)) {
    this.#limit = typeof limit === 'number' ? () => limit : limit;
  }

  /** Resolves with the function that gives `weight` back. A weight above the limit waits until it is alone. Rejects with the signal's reason. */
  async take(weight = 1, signal?: AbortSignal | undefined): Promise<() => void> {
    const release = (): void => {
      this.#taken -= weight;
      this.#startNext();
    };
    if (this.#waiting.length === 0 && this.#hasRoom(weight)) {
      this.#taken += weight;
      return release;
    }
    const started = new Promise<void>((start) => this.#waiting.push({ weight, start }));
    try {
      await abortable(started, signal);
      return release;
    } catch (reason) {
      void started.then(release);
      throw reason;
    }
  }

  /** Resolves when nothing is taken. */
  async idle(): Promise<void> {
    if (this.#taken > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  #hasRoom(weight: number): boolean {
    return this.#taken === 0 || this.#taken + weight <= this.#limit();
  }

  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#hasRoom(next.weight)) return;
      this.#waiting.shift();
      this.#taken += next.weight;
      next.start();
    }
    if (this.#taken === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}
