/** The one place where a failure becomes an HTTP answer (docs/api.md, Errors). */
import { ApiError, type ErrorBody, JSON_BODY_BYTES_MAX } from '@holdfast/protocol';
import { KeySetUnavailable } from '../auth/auth-limits.ts';
import { type Excess, QuotaExceeded } from '../core/quotas.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../core/store-failure.ts';
import { QUOTA_REFUSALS } from '../metrics/server-metrics.ts';
import type { HeaderFields } from './cors.ts';
import { type Exchange, jsonAnswer, requestIdOf } from './exchange.ts';
import { RETRY_AFTER_SECONDS, SMALL_BODY_BYTES_MAX } from './http-limits.ts';
import { unreadBytesAtMost } from './request-body.ts';

/** The log entry of a failure. It never holds a URL, a header or a body, because these hold tokens and signatures. */
export interface FailureReport {
  readonly kind: 'unexpected' | 'storage' | 'registry' | 'keys' | 'caller-gone';
  /** also sent to the caller, unless the caller is gone */
  readonly requestId: string;
  readonly error: unknown;
}

export type ReportFailure = (report: FailureReport) => void;

export function errorAnswer(exchange: Exchange, error: unknown, report: ReportFailure): Response {
  if (error instanceof ApiError) {
    if (error instanceof QuotaExceeded) countRefusal(error.excess);
    const isOfKeys = error instanceof KeySetUnavailable;
    if (isOfKeys) exchange.appWithoutKeys = error.appId;
    if (error.cause === undefined || error.status < 500) return render(exchange, error);
    const requestId = requestIdOf(exchange);
    report({ kind: isOfKeys ? 'keys' : 'registry', requestId, error });
    return render(exchange, error);
  }
  const requestId = requestIdOf(exchange);
  const failure = (kind: FailureReport['kind']): void => report({ kind, requestId, error });
  if (exchange.request.signal.aborted) {
    failure('caller-gone');
    return render(exchange, new ApiError('INVALID_REQUEST', 'the request was broken off'));
  }
  if (isStorageFailure(error)) {
    failure('storage');
    const message = isDiskFull(error)
      ? `no space left on the server's disk: nothing is lost, try again when its operator has made room (request ${requestId} in its log)`
      : `storage failed; try again (the server's log has the cause under request ${requestId})`;
    return render(exchange, new ApiError('SERVICE_UNAVAILABLE', message));
  }
  failure('unexpected');
  const message = `the server failed; its log has the cause under request ${requestId}`;
  return render(exchange, new ApiError('INTERNAL_ERROR', message));
}

// Each counter starts at 0.
for (const holder of ['App', 'Space'] as const) {
  for (const unit of ['bytes', 'nodes'] as const) QUOTA_REFUSALS.with({ holder: labelOf(holder), unit });
}

function countRefusal({ holder, unit }: Excess): void {
  QUOTA_REFUSALS.add({ holder: labelOf(holder), unit }, 1);
}

function labelOf(holder: Excess['holder']): string {
  return holder.toLowerCase();
}

/** Error codes of the operating system (EIO) and SQLite that no engine has wrapped. */
const STORAGE_CODE = /^(?:E[A-Z0-9]{2,}|SQLITE_[A-Z_]+)$/;

function isStorageFailure(error: unknown): boolean {
  if (error instanceof StoreUnavailable) return true;
  if (error instanceof ContentDamaged || error instanceof ContentLost) return true;
  const code = error instanceof Error ? (error as Error & { code?: unknown }).code : undefined;
  return typeof code === 'string' && STORAGE_CODE.test(code);
}

/** Codes of the operating system, SQLite and PostgreSQL. */
const DISK_FULL_CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL', '53100']);

/** The message names a full disk, because waiting does not help. */
function isDiskFull(error: unknown): boolean {
  let each = error;
  for (let depth = 0; each instanceof Error && depth < 5; depth += 1) {
    if (DISK_FULL_CODES.has((each as Error & { code?: unknown }).code)) return true;
    each = each.cause;
  }
  return false;
}

function render(exchange: Exchange, error: ApiError): Response {
  exchange.errorCode = error.code;
  const body: ErrorBody = { error: error.code, message: error.message };
  const headers: HeaderFields = { 'x-request-id': requestIdOf(exchange), ...error.headers };
  const retryAfterSeconds =
    error.retryAfterSeconds ?? (error.code === 'SERVICE_UNAVAILABLE' ? RETRY_AFTER_SECONDS : undefined);
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds);
  if (closesWithBody(exchange)) headers.connection = 'close';
  return jsonAnswer(exchange, error.status, JSON.stringify(body), headers);
}

/** Discarding refused bodies keeps the process busy. Some clients read after sending: uploads and oversized bodies are received. */
function closesWithBody({ request, operation, receivedBytes }: Exchange): boolean {
  if (operation === 'upload') return false;
  const unread = unreadBytesAtMost(request, receivedBytes);
  return unread > SMALL_BODY_BYTES_MAX && unread <= JSON_BODY_BYTES_MAX;
}
