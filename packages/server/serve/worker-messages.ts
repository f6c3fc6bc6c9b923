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
  | { readonly kind: 'read-metrics' }
  /** the answer to `sum-metrics` */
  | { readonly kind: 'summed-metrics'; readonly snapshot: MetricsSnapshot }
  | { readonly kind: 'read-audit'; readonly limit: number }
  /** the answer to `gather-audit` */
  | { readonly kind: 'gathered-audit'; readonly lines: readonly AuditLine[] }
  | { readonly kind: 'reopen-audit' }
  | { readonly kind: 'drain' };

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'metrics'; readonly snapshot: MetricsSnapshot }
  | { readonly kind: 'listening'; readonly port: number; readonly operatorPort: number | undefined }
  /** asks what all workers have counted */
  | { readonly kind: 'sum-metrics' }
  | { readonly kind: 'audit'; readonly lines: readonly AuditLine[] }
  /** asks for the newest lines of all workers */
  | { readonly kind: 'gather-audit'; readonly limit: number }
  /** the worker did not start; `message` is one line for the user */
  | { readonly kind: 'failed'; readonly message: string };
