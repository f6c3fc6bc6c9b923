/** The one kind of error the SDK throws, with a closed list of codes: the API's own and a few of the client's. */
import {
  type BulkOperationName,
  type ErrorCode,
  findCertificateFailure,
  type Hash,
  type OperationName,
  type RejectionCode,
} from '@holdfast/protocol';

/**
 * Failures that no server reports because they happen on this side of the wire.
 *
 * - `CONNECTION_FAILED`: no complete answer arrived (refused, reset, cut off, DNS, CORS, TLS).
 * - `TIMED_OUT`: an attempt took longer than its time limit.
 * - `MALFORMED_RESPONSE`: an answer that this API never gives; usually another server or a proxy answered.
 * - `RESPONSE_TOO_LARGE`: an answer beyond the limit for its kind; reading stopped there.
 * - `UPLOAD_REFUSED`: the upload target turned the bytes away for a reason that another lease does not mend, or the server told
 *   to upload where no bytes may go (from https to http, or to a foreign host with other headers than an upload's).
 * - `UPLOAD_UNSETTLED`: the bounded rounds of lease and PUT ended without an outcome.
 * - `VERIFICATION_FAILED`: what was read is not what its hash says (`VerificationError`).
 * - `TOKEN_UNAVAILABLE`: the token function failed or returned something that is no token.
 * - `BULK_UNAVAILABLE`: the server does not offer Bulk; the operations on single nodes do the same.
 * - `INVALID_ARGUMENT`: the call could never succeed; nothing was sent.
 */
type ClientErrorCode =
  | 'CONNECTION_FAILED'
  | 'TIMED_OUT'
  | 'MALFORMED_RESPONSE'
  | 'RESPONSE_TOO_LARGE'
  | 'UPLOAD_REFUSED'
  | 'UPLOAD_UNSETTLED'
  | 'VERIFICATION_FAILED'
  | 'TOKEN_UNAVAILABLE'
  | 'BULK_UNAVAILABLE'
  | 'INVALID_ARGUMENT';

export type CasErrorCode = ErrorCode | RejectionCode | ClientErrorCode;

/** The operation that failed: as the wire names it, health, a PUT to an upload target, or building the client. */
export type RequestOperation =
  | OperationName
  | BulkOperationName
  | 'health'
  | 'uploadNode'
  | 'uploadPack'
  | 'createClient';

export interface CasErrorDetails {
  readonly code: CasErrorCode;
  readonly requestOperation: RequestOperation;
  /** HTTP status of the answer, when there was one. */
  readonly status?: number | undefined;
  /** How long the server asked to wait, ms. */
  readonly retryAfterMs?: number | undefined;
  /** The `X-Request-Id` of the answer. */
  readonly requestId?: string | undefined;
  /** A server of this API answered, and something on the way changed its answer or cut it off. */
  readonly isBrokenOnTheWay?: boolean;
  /** what a store that takes uploads itself says is wrong, in its own words, such as `ExpiredToken` */
  readonly storeCode?: string | undefined;
  readonly cause?: unknown;
}

/** One call may make requests of several operations: its own name stands before the message all the same. */
const CALL_NAME = /^(?:health|[a-z]+(?:[A-Z][a-z]*)+): /;

/**
 * Every failure of the SDK but one: when the caller's AbortSignal fires, its reason is thrown as it is. Branch on `code`;
 * `message` is for people and never holds a token.
 */
export class CasError extends Error {
  override readonly name: string = 'CasError';
  readonly code: CasErrorCode;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly requestOperation: RequestOperation;
  /** By which the server's log knows the answer: for a question to its operator. */
  readonly requestId: string | undefined;
  /** As `CasErrorDetails` says: check the proxy in between, not the address. */
  readonly isBrokenOnTheWay: boolean;
  /** As `CasErrorDetails` says. */
  readonly storeCode: string | undefined;

  constructor(message: string, details: CasErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = details.code;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.requestOperation = details.requestOperation;
    this.requestId = details.requestId;
    this.isBrokenOnTheWay = details.isBrokenOnTheWay ?? false;
    this.storeCode = details.storeCode;
  }

  /** `message` without the name of the call before it, such as `putNode`: for those who did not call it by that name. */
  get reason(): string {
    return this.message.replace(CALL_NAME, '');
  }
}

/** The bytes or the metadata that arrived do not hash to the name they were asked by: do not use them. */
export class VerificationError extends CasError {
  override readonly name: string = 'VerificationError';
  /** The node that failed, of many; undefined where one was asked for. */
  readonly hash: Hash | undefined;

  constructor(message: string, requestOperation: RequestOperation, hash?: Hash) {
    super(message, { code: 'VERIFICATION_FAILED', requestOperation });
    this.hash = hash;
  }
}

/** No whole answer came, though one might: the connection broke, or the time limit passed. A wrong certificate stays wrong. */
export function isConnectionBreak(error: unknown): boolean {
  if (!(error instanceof CasError)) return false;
  if (error.code === 'TIMED_OUT') return true;
  return error.code === 'CONNECTION_FAILED' && findCertificateFailure(error.cause) === undefined;
}
