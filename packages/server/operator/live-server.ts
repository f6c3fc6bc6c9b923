/** The calls of operations to the serving process, besides its deployment. */
import type { AuditLine } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { FolderBackups } from './folder-backups.ts';
import type { LoadHistory } from './load-history.ts';
import type { Check } from './readiness.ts';
import type { ConsoleSignIn } from './sign-in.ts';

export interface LiveServer {
  /** ms since the epoch */
  readonly startedAt: number;
  /** the server is ending: current requests finish, no new ones start */
  isDraining(): boolean;
  /** undefined if there is no audit log */
  readonly audit: AuditLog | undefined;
  /** The newest lines written by this server's processes, newest first. */
  readonly readAudit: (limit: number) => Promise<readonly AuditLine[]>;
  readonly checks: readonly Check[];
  readonly workers: number;
  /** ms; undefined if the server does not collect automatically */
  readonly gcEveryMs: number | undefined;
  /** ms of the monotonic clock for which this process has known that the App is not active */
  readonly stoppedForMs: (appId: string) => number;
  readonly history: LoadHistory;
  /** undefined if the rows are not in a folder */
  readonly backups: FolderBackups | undefined;
  /** undefined if there is no listener and so no console */
  readonly signIn: ConsoleSignIn | undefined;
}
