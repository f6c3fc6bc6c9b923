/** The messages between the supervisor and its workers. */
import type { AuditLine } from '../audit/audit-event.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import type { LoadedTokens } from '../operator/operator-tokens.ts';
import type { SignInCode } from '../operator/sign-in.ts';
import type { ServeConfig } from './config.ts';

export type ToWorker =
  | {
      readonly kind: 'start';
      readonly config: ServeConfig;
      readonly worker: number;
      readonly port: number;
      /** of the listener for operators, if a worker before this one had it */
      readonly operatorPort: number | undefined;
      /** of the console's one-time link; only the first process gets it, so that it works once */
      readonly signInCode: SignInCode | undefined;
      /** of operators; undefined: there is no listener for them */
      readonly tokens: LoadedTokens | undefined;
      /** what starts this very holdfast, before the words of a command */
      readonly program: readonly string[];
      /** no other worker has been started yet */
      readonly isAlone: boolean;
      /** of the clock that all workers share */
      readonly timeOrigin: number;
    }
  | AskMessage
  | AnswerMessage
  | { readonly kind: 'reopen-audit' }
  | { readonly kind: 'drain' };

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'listening'; readonly port: number; readonly operatorPort: number | undefined }
  /** the worker did not start; `message` is one line for the user */
  | { readonly kind: 'failed'; readonly message: string }
  | AskMessage
  | AnswerMessage;

/** The counts, or the newest lines of the audit log: a worker is asked for its own, the supervisor for those of all. */
export type Question = { readonly kind: 'metrics' } | { readonly kind: 'audit'; readonly limit: number };

export interface AskMessage {
  readonly kind: 'ask';
  readonly id: number;
  readonly question: Question;
}

export interface AnswerMessage {
  readonly kind: 'answer';
  /** of the question */
  readonly id: number;
  readonly answer: MetricsSnapshot | readonly AuditLine[] | undefined;
}

interface Peer {
  send(message: AskMessage): void;
}

/** Questions between a supervisor and its workers, each with a number that its answer names. */
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
