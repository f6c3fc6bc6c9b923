/** The closed set of error codes with their HTTP status (docs/api.md, Errors). */

/** The status a code is answered with, unless a rule names another one (416 for ranges, 412 for finished uploads). */
export const ERROR_STATUS = {
  INVALID_REQUEST: 400,
  UNAUTHORIZED: 401,
  missing_token: 401,
  invalid_token: 401,
  unsupported_algorithm: 401,
  unknown_issuer: 401,
  FORBIDDEN: 403,
  APP_SUSPENDED: 403,
  resource_scope_mismatch: 403,
  insufficient_permission: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  IDEMPOTENCY_CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  RESOURCE_EXHAUSTED: 429,
  CAS_UPLOAD_LIMIT: 429,
  INTERNAL_ERROR: 500,
  SERVICE_UNAVAILABLE: 503,
  registry_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** Why uploaded bytes were turned down; only inside a lease response, never an HTTP error. */
export const REJECTION_CODES = [
  'NODE_TOO_LARGE',
  'NODE_DIGEST_MISMATCH',
  'INVALID_CANONICAL_NODE',
  'NODE_CONFLICT',
] as const;

export type RejectionCode = (typeof REJECTION_CODES)[number];

export interface ApiErrorOptions {
  /** Replaces the status of the code, in two cases: 416 (range), 412 (upload target). */
  readonly status?: number;
  readonly retryAfterSeconds?: number;
  /** Further response headers, names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** An answer that is not success. `message` goes to the caller: it must be safe to show and say what to do. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(code: ErrorCode, message: string, options: ApiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? ERROR_STATUS[code];
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.headers = options.headers;
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERROR_STATUS, value);
}
