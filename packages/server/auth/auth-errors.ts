/** The errors of authorization, with the headers their callers need (docs/api.md, Capabilities; RFC 6750 section 3). */
import { ApiError } from '@holdfast/protocol';
import { REJECTIONS } from '../metrics/server-metrics.ts';
import { REGISTRY_RETRY_AFTER_SECONDS } from './auth-limits.ts';

const REALM = 'realm="holdfast"';

/** Row 1. docs/api.md promises an RFC 6750 `error` on every 401, also here, where the RFC omits it. */
export function missingToken(): ApiError {
  return new ApiError(
    'missing_token',
    'the Authorization header is missing; send "Authorization: Bearer <capability>"',
    { headers: { 'www-authenticate': `Bearer ${REALM}, error="invalid_request"` } },
  );
}

/** Rows 2, 3, 4 and 7. `message` is shown to the caller: it never quotes the token. */
export function unauthorized(
  code: 'invalid_token' | 'unsupported_algorithm' | 'unknown_issuer',
  message: string,
): ApiError {
  return new ApiError(code, message, {
    headers: { 'www-authenticate': `Bearer ${REALM}, error="invalid_token"` },
  });
}

/** Row 5. `cause` goes to the log; the client learns only that it may retry. */
export function registryUnavailable(message: string, cause?: unknown): ApiError {
  return new ApiError('registry_unavailable', message, {
    retryAfterSeconds: REGISTRY_RETRY_AFTER_SECONDS,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Row 5 for one App: other Apps are still served. */
export class KeySetUnavailable extends ApiError {
  readonly appId: string;

  constructor(appId: string, { message, cause, retryAfterSeconds }: ApiError) {
    super('registry_unavailable', message, { cause, ...(retryAfterSeconds && { retryAfterSeconds }) });
    this.appId = appId;
  }
}

/** The `resource` label of metrics for requests that wait for a key set. */
export const KEY_SET_WAITERS = 'key-set waiters';

/** Too many requests of one peer wait for key sets. */
export function keySetCrowded(): ApiError {
  REJECTIONS.add({ resource: KEY_SET_WAITERS, reason: 'queue-full' });
  return new ApiError(
    'RESOURCE_EXHAUSTED',
    "too many requests wait for the key set of the token's issuer; try again shortly",
    { retryAfterSeconds: REGISTRY_RETRY_AFTER_SECONDS },
  );
}
