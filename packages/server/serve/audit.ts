/** The audit log of a process that serves. */
import { AuditLog, type AuditOptions } from '../audit/audit-log.ts';
import type { Log } from '../log.ts';

/** Throws ServeError. */
export async function openAudit(options: AuditOptions, log: Log): Promise<AuditLog> {
  const audit = await AuditLog.open(options, (report) => {
    if (report.kind === 'failing') {
      log.error({ reason: report.reason }, 'the audit log cannot be written: lines are lost until it can');
    } else {
      log.warn(
        { lost: report.lost },
        report.lost > 0
          ? 'the audit log can be written again; some lines are missing'
          : 'the audit log can be written again; no line is missing',
      );
    }
  });
  const atExit = (): void => audit.writeAtExit();
  process.once('exit', atExit);
  return audit;
}
