/** One question to all workers, and their answers. */
import type { Subprocess } from 'bun';
import type { ToWorker } from './worker-messages.ts';

/** Ask again only when the answers are there: a worker says nothing of the question that it answers. */
export class WorkerAnswers<T> {
  readonly #waiting = new Map<Subprocess, (answer: T | undefined) => void>();

  /** Resolves with what came in time. */
  async ask(workers: Iterable<Subprocess>, question: ToWorker): Promise<readonly T[]> {
    const answers = await Promise.all([...workers].map((worker) => this.#askOne(worker, question)));
    return answers.filter((answer) => answer !== undefined);
  }

  note(worker: Subprocess, answer: T): void {
    this.#waiting.get(worker)?.(answer);
  }

  /** A worker that has ended answers nothing any more. */
  drop(worker: Subprocess): void {
    this.#waiting.get(worker)?.(undefined);
  }

  async #askOne(worker: Subprocess, question: ToWorker): Promise<T | undefined> {
    const { promise, resolve } = Promise.withResolvers<T | undefined>();
    // A worker that is busy for longer is left out.
    const timer = setTimeout(() => resolve(undefined), 1000);
    this.#waiting.set(worker, resolve);
    try {
      worker.send(question);
      return await promise;
    } catch {
      // The worker has ended; the supervisor learns of it by itself.
      return undefined;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(worker);
    }
  }
}
