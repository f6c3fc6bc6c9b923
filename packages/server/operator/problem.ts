/** Errors of operations, and their RFC 9457 answers: `application/problem+json`. */
import { ApiError } from '@holdfast/protocol';
import { StoreUnavailable } from '../core/store-failure.ts';
import { ConfigError, NotFoundError, ServeError } from '../errors.ts';

/** The closed set of codes with their status. Programs use the code; `detail` is for people. */
export const PROBLEM_STATUS = {
  INVALID_INPUT: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  /** wrong tokens or codes; sent with `Retry-After` */
  TOO_MANY_GUESSES: 429,
  INTERNAL_ERROR: 500,
  /** the storage is unavailable; retry */
  SERVICE_UNAVAILABLE: 503,
  /** the server is ending; nothing was started */
  DRAINING: 503,
} as const;

export type ProblemCode = keyof typeof PROBLEM_STATUS;

const TITLES: Readonly<Record<ProblemCode, string>> = {
  INVALID_INPUT: 'The input is not what the operation takes',
  UNAUTHORIZED: 'The operator token is missing, wrong or expired',
  FORBIDDEN: 'The request is not allowed',
  NOT_FOUND: 'Not found',
  METHOD_NOT_ALLOWED: 'The path has no such method',
  CONFLICT: 'It cannot be done as things are',
  PAYLOAD_TOO_LARGE: 'The body is too large',
  UNSUPPORTED_MEDIA_TYPE: 'The body is not JSON',
  TOO_MANY_GUESSES: 'Too many wrong tokens or codes',
  INTERNAL_ERROR: 'An unexpected failure',
  SERVICE_UNAVAILABLE: 'The storage cannot be used now',
  DRAINING: 'The server is ending',
};

/** Why an operation was refused or failed. `message` is one line for the operator, without secrets. */
export class OperatorError extends ServeError {
  override readonly name: string = 'OperatorError';
  readonly code: ProblemCode;

  constructor(code: ProblemCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface Problem {
  readonly type: 'about:blank';
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ProblemCode;
}

/** The problem to send. Details of an unexpected error go to the log only. */
export function problemOf(error: unknown): Problem {
  const code = codeOf(error);
  const detail = code === 'INTERNAL_ERROR' ? 'the log of the server says what happened' : messageOf(error);
  return { type: 'about:blank', title: TITLES[code], status: PROBLEM_STATUS[code], detail, code };
}

export function isUnexpected(error: unknown): boolean {
  return codeOf(error) === 'INTERNAL_ERROR';
}

function codeOf(error: unknown): ProblemCode {
  if (error instanceof OperatorError) return error.code;
  if (error instanceof ConfigError) return 'INVALID_INPUT';
  if (error instanceof NotFoundError) return 'NOT_FOUND';
  if (error instanceof ServeError) {
    return error.cause instanceof StoreUnavailable ? 'SERVICE_UNAVAILABLE' : 'CONFLICT';
  }
  if (error instanceof StoreUnavailable) return 'SERVICE_UNAVAILABLE';
  if (error instanceof ApiError) return API_CODES[error.status] ?? 'INTERNAL_ERROR';
  return 'INTERNAL_ERROR';
}

const API_CODES: Readonly<Record<number, ProblemCode>> = {
  400: 'INVALID_INPUT',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  413: 'PAYLOAD_TOO_LARGE',
  503: 'SERVICE_UNAVAILABLE',
};

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
