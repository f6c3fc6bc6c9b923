/** Writes operators' changes to the audit log. */
import type { AuditEvent } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { Operation } from './operation.ts';
import { OperatorError, PROBLEM_STATUS, type Problem, problemOf } from './problem.ts';
import type { RequestCaller } from './rights.ts';

const REFUSALS: ReadonlySet<Problem['code']> = new Set(['UNAUTHORIZED', 'FORBIDDEN', 'TOO_MANY_GUESSES']);

interface AuditedCall {
  readonly operation: Pick<Operation, 'method' | 'path'>;
  /** parsed */
  readonly input: Readonly<Record<string, unknown>>;
  readonly caller: RequestCaller;
}

/** Runs a call and audits it unless it only reads. Throws what `run` throws. */
export async function audited<T>(
  audit: AuditLog | undefined,
  { operation, input, caller }: AuditedCall,
  run: () => Promise<T>,
): Promise<T> {
  if (audit === undefined || operation.method === 'GET') return run();
  if (audit.refusesChanges) throw notAudited();
  const startedAt = performance.now();
  const note = (status: number, error?: string): void => {
    const { app, space } = input;
    const event: AuditEvent = {
      app: typeof app === 'string' ? app : undefined,
      space: typeof space === 'string' ? space : undefined,
      ...whoAndWhat(operation, caller),
      ...{ status, error },
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
  note(200);
  if (audit.isRequired && !(await audit.written())) throw notAudited();
  return result;
}

/** Audits a call by an operator whose token has no right to the operation. */
export function noteForbidden(
  audit: AuditLog | undefined,
  operation: AuditedCall['operation'],
  caller: RequestCaller,
): void {
  const { FORBIDDEN: status } = PROBLEM_STATUS;
  audit?.note({ ...whoAndWhat(operation, caller), status, error: 'FORBIDDEN' }, 'counted');
}

function whoAndWhat({ path }: AuditedCall['operation'], { operator, peer, requestId }: RequestCaller) {
  return { requestId, operation: `operator.${path.replaceAll('/', '.')}`, operator: operator?.name, peer };
}

/** Audits a request that may not call operations at all. */
export function noteRefusal(
  audit: AuditLog | undefined,
  problem: Problem,
  { peer, requestId }: Omit<RequestCaller, 'operator'>,
): void {
  if (!REFUSALS.has(problem.code)) return;
  const { status, code: error } = problem;
  audit?.note({ requestId, operation: 'operator', verified: false, peer, status, error }, 'counted');
}

const notAudited = (): OperatorError =>
  new OperatorError(
    'SERVICE_UNAVAILABLE',
    'the audit log of this server cannot be written, and it accepts no change without it: see its /readyz',
  );
