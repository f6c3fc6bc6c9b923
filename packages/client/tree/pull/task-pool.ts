/** Work at once, within a bound. The first failure is kept; nothing further starts after it. */
import { Semaphore } from '../../semaphore.ts';

export class TaskPool {
  readonly #places: Semaphore;
  readonly #onFailure: (error: unknown) => void;
  #failure: { readonly error: unknown } | undefined;

  /** `onFailure` hears of the first failure as it happens. */
  constructor(max: number, onFailure: (error: unknown) => void) {
    this.#places = new Semaphore(max);
    this.#onFailure = onFailure;
  }

  /** Resolves when `task` has begun. Throws what an earlier one failed with; then `task` never begins. */
  async start(task: () => Promise<void>): Promise<void> {
    const end = await this.#places.take();
    if (this.#failure !== undefined) {
      end();
      throw this.#failure.error;
    }
    void this.#run(task, end);
  }

  async #run(task: () => Promise<void>, end: () => void): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.fail(error);
    } finally {
      end();
    }
  }

  /** As if a task had failed. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#onFailure(error);
  }

  /** Waits for all that run. Throws what the first one failed with. */
  async finish(): Promise<void> {
    await this.#places.idle();
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
