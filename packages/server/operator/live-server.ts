/** The calls of operations to the process that serves, beside its deployment. */
import type { AuditLine } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { FolderBackups } from './folder-backups.ts';
import type { LoadHistory } from './load-history.ts';
import type { Check } from './readiness.ts';
import type { ConsoleSignIn } from './sign-in.ts';

export interface LiveServer {
  /** ms since the epoch */
  readonly startedAt: number;
  /** the server ends: requests under way finish, none begins */
  isDraining(): boolean;
  /** undefined: none is kept */
  readonly audit: AuditLog | undefined;
  /** The newest lines that the processes of this server have written, the newest first. */
  readonly readAudit: (limit: number) => Promise<readonly AuditLine[]>;
  readonly checks: readonly Check[];
  /** processes that serve */
  readonly workers: number;
  /** ms; undefined: the server does not collect by itself */
  readonly gcEveryMs: number | undefined;
  /** ms, by the monotonic clock, that this process knows the App as not active */
  readonly stoppedForMs: (appId: string) => number;
  readonly history: LoadHistory;
  /** undefined: the rows are in no folder */
  readonly backups: FolderBackups | undefined;
  /** undefined: there is no console, because there is no listener */
  readonly signIn: ConsoleSignIn | undefined;
}
