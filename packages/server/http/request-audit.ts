/** Reports answered requests to the audit log. */
import { ApiError } from '@holdfast/protocol';
import type { AuditEvent } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import { describeToken } from '../auth/capability.ts';
import type { Awaitable } from '../core/awaitable.ts';
import { type Exchange, requestIdOf } from './exchange.ts';
import type { TrustedProxies } from './peer.ts';
import type { RequestRecord, ServedOperation } from './request-record.ts';

const CHANGES: ReadonlySet<ServedOperation> = new Set([
  'leaseNode',
  'leaseNodes',
  'leasePack',
  'updateRootRefs',
  'runGc',
  'upload',
]);
/** Answers to a permitted read about the node itself. */
const FOUND_NOTHING: ReadonlySet<number> = new Set([404, 416]);

/** Whether an operation may change something; for leases that is known only afterwards. */
export function mayChange(operation: ServedOperation): boolean {
  return CHANGES.has(operation);
}

/** Writes the audit line of a request, if it needs one. A change that must be audited is answered after it, else with `unwritten`. */
export function auditAnswer(
  log: AuditLog,
  exchange: Exchange,
  answer: Response,
  proxies: TrustedProxies,
  unwritten: (error: ApiError) => Response,
): Awaitable<Response> {
  const { record } = exchange;
  const { status } = answer;
  const isChange = mayChange(record.operation) && !record.isRenewal;
  const isRefusal = status >= 400;
  if (!isWanted(log, record, status, isChange)) return answer;
  answer.headers.set('x-request-id', requestIdOf(exchange));
  const peer = proxies.peerOf(exchange.request, exchange.connections);
  log.note(eventOf(exchange, status, isChange, peer), isChange && !isRefusal ? 'change' : 'counted');
  return log.isRequired && isChange && !isRefusal ? onceWritten(log, answer, unwritten) : answer;
}

function isWanted(log: AuditLog, record: RequestRecord, status: number, isChange: boolean): boolean {
  // An unknown path refuses nothing.
  if (record.operation === 'other') return status >= 400 && status !== 404;
  if (isChange || log.withReads) return true;
  return status >= 400 && !FOUND_NOTHING.has(status);
}

async function onceWritten(
  log: AuditLog,
  answer: Response,
  unwritten: (error: ApiError) => Response,
): Promise<Response> {
  return (await log.written()) ? answer : unwritten(notAudited());
}

/** For a change that is not begun, or whose line was lost. */
export const notAudited = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'the audit log of this server cannot be written, and it accepts no change without it; try again shortly',
  );

function eventOf(
  exchange: Exchange,
  status: number,
  isChange: boolean,
  peer: string | undefined,
): AuditEvent {
  const { request, record, timing } = exchange;
  const { capability, space } = record;
  const isUpload = record.operation === 'upload';
  // The Space of an upload comes from a URL that we signed.
  const isProven = capability !== undefined || (isUpload && space !== undefined);
  const claims = isUpload ? undefined : describeToken(request.headers.get('authorization'));
  return {
    requestId: record.requestId,
    // The App and Space of the request, even if the capability is for others.
    app: space?.appId ?? capability?.appId,
    space: space?.spaceId ?? capability?.spaceId,
    operation: record.operation,
    ...claims,
    verified: isProven ? undefined : false,
    peer,
    status,
    error: record.errorCode,
    bytes: isChange ? record.receivedBytes : record.sentBytes,
    ms: Math.round(timing.elapsedMs * 1000) / 1000,
  };
}
