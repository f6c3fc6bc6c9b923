/** Changes of operators have their lines in the audit log, as those of tenants do. */
import type { AuditEvent } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { Operation } from './operation.ts';
import { OperatorError, type Problem, problemOf } from './problem.ts';

const DONE_STATUS = 200;

/** One call of an operation, by somebody who may call it. */
interface AuditedCall {
  readonly operation: Pick<Operation, 'method' | 'path'>;
  /** parsed */
  readonly input: Readonly<Record<string, unknown>>;
  /** undefined: a command on this machine, through the channel */
  readonly peer: string | undefined;
}

/** Runs a call and writes its line, unless it only reads. Throws what `run` throws. */
export async function audited<T>(
  audit: AuditLog | undefined,
  { operation: { method, path }, input, peer }: AuditedCall,
  run: () => Promise<T>,
): Promise<T> {
  if (audit === undefined || method === 'GET') return run();
  if (audit.refusesChanges) throw notAudited();
  const startedAt = performance.now();
  const note = (status: number, error?: string): void => {
    const { app, space } = input;
    const event: AuditEvent = {
      requestId: crypto.randomUUID(),
      app: typeof app === 'string' ? app : undefined,
      space: typeof space === 'string' ? space : undefined,
      operation: `operator.${path.replaceAll('/', '.')}`,
      ...{ peer, status, error },
      ms: Math.round(performance.now() - startedAt),
    };
    audit.note(event, error === undefined ? 'change' : 'counted');
  };
  let result: T;
  try {
    result = await run();
  } catch (error) {
    const { status, code } = problemOf(error);
    note(status, code);
    throw error;
  }
  note(DONE_STATUS);
  if (audit.isRequired && !(await audit.written())) throw notAudited();
  return result;
}

/** A request that may not call operations at all. */
export function noteRefusal(audit: AuditLog | undefined, problem: Problem, peer: string | undefined): void {
  if (problem.code !== 'UNAUTHORIZED' && problem.code !== 'FORBIDDEN') return;
  const { status, code: error } = problem;
  audit?.note({ operation: 'operator', verified: false, peer, status, error }, 'counted');
}

const notAudited = (): OperatorError =>
  new OperatorError(
    'SERVICE_UNAVAILABLE',
    'the audit log of this server cannot be written, and it accepts no change without it: see its /readyz',
  );
