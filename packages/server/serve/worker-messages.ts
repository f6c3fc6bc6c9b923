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
