/** Work at once, within a bound. The first failure is kept; nothing further starts after it. */

export class TaskPool {
  readonly #max: number;
  readonly #onFailure: (error: unknown) => void;
  /** Each takes over the place of a task that has ended. */
  readonly #waiting: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];
  /** Places that are taken, by tasks or by those that took one over and have not begun. */
  #running = 0;
  #failure: { readonly error: unknown } | undefined;

  /** `onFailure` hears of the first failure as it happens. */
  constructor(max: number, onFailure: (error: unknown) => void) {
    this.#max = max;
    this.#onFailure = onFailure;
  }

  /** Resolves when `task` has begun. Throws what an earlier one failed with; then `task` never begins. */
  async start(task: () => Promise<void>): Promise<void> {
    if (this.#running < this.#max) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#failure !== undefined) {
      this.#end();
      throw this.#failure.error;
    }
    void task()
      .catch((error: unknown) => this.fail(error))
      .finally(() => this.#end());
  }

  /** As if a task had failed. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#onFailure(error);
  }

  /** Waits for all that run. Throws what the first one failed with. */
  async finish(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #end(): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    this.#running -= 1;
    if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}
