/** The flags of the audit log. */
import type { AuditOptions } from '../audit/audit-log.ts';
import { parseSwitch } from '../deployment/parse-switch.ts';
import { ConfigError } from '../errors.ts';

export interface AuditFlags {
  readonly auditLog?: string | undefined;
  readonly auditReads?: boolean | undefined;
  readonly auditRequired?: boolean | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** undefined if there is no audit log. Throws ConfigError. */
export function parseAudit(flags: AuditFlags, env: Environment): AuditOptions | undefined {
  const path = flags.auditLog ?? (env.HOLDFAST_AUDIT_LOG || undefined);
  const withReads = flags.auditReads ?? parseSwitch('HOLDFAST_AUDIT_READS', env);
  const isRequired = flags.auditRequired ?? parseSwitch('HOLDFAST_AUDIT_REQUIRED', env);
  if (path === undefined) {
    if (!withReads && !isRequired) return undefined;
    const name = withReads ? '--audit-reads' : '--audit-required';
    throw new ConfigError(`${name} needs an audit log: give --audit-log FILE, or - for stdout`);
  }
  if (path === '') throw new ConfigError('--audit-log is empty: give a file, or - for stdout');
  const target = path === '-' ? ({ kind: 'stdout' } as const) : ({ kind: 'file', path } as const);
  return { target, withReads, isRequired };
}
