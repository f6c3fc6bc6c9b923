/** Questions between a supervisor and its workers, each with a number that its answer names. */
import type { AnswerMessage, AskMessage, Question } from './worker-messages.ts';

interface Peer {
  send(message: AskMessage): void;
}

export class Questions<P extends Peer> {
  readonly #waiting = new Map<number, { readonly peer: P; readonly settle: (answer: unknown) => void }>();
  #last = 0;

  /** Resolves with undefined if the peer ends or has no answer. */
  ask<T>(peer: P, question: Question): Promise<T | undefined> {
    const { promise, resolve } = Promise.withResolvers<T | undefined>();
    this.#last += 1;
    const id = this.#last;
    this.#waiting.set(id, { peer, settle: (answer) => resolve(answer as T | undefined) });
    try {
      peer.send({ kind: 'ask', id, question });
    } catch {
      this.take({ id, answer: undefined });
    }
    return promise;
  }

  take({ id, answer }: Pick<AnswerMessage, 'id' | 'answer'>): void {
    this.#waiting.get(id)?.settle(answer);
    this.#waiting.delete(id);
  }

  /** A peer that has ended no longer answers. */
  drop(peer: P): void {
    for (const [id, waiting] of this.#waiting)
      if (waiting.peer === peer) this.take({ id, answer: undefined });
  }
}

/** Resolves with undefined if the worker is busy for longer. */
export async function withinSecond<T>(answering: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), 1000);
  try {
    return await Promise.race([answering, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
