/** What operations can ask of the process that serves, beside its deployment. */
import type { AuditLog } from '../audit/audit-log.ts';

export interface LiveServer {
  /** ms since the epoch */
  readonly startedAt: number;
  /** the server ends: requests under way finish, none begins */
  isDraining(): boolean;
  /** undefined: none is kept */
  readonly audit: AuditLog | undefined;
}
