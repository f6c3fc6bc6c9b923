/** Limits of authorization that no client needs to know; those that a client can meet are in the protocol package. */

import { ApiError } from '@holdfast/protocol';
import { REJECTIONS } from '../metrics/server-metrics.ts';

/** Longest capability, in characters: far above any real one. It bounds the work that an unauthenticated sender can cause. */
export const TOKEN_CHARACTERS_MAX = 8192;

export const JWKS_BYTES_MAX = 256 * 1024;
export const JWKS_KEYS_MAX = 100;
/** Characters of a key's `kid`. */
export const KEY_ID_CHARACTERS_MAX = 256;
export const RSA_MODULUS_BITS_MIN = 2048;
export const RSA_MODULUS_BITS_MAX = 8192;

/** A key set older than this is used only while fetching it fails. */
export const JWKS_FRESH_MS_MAX = 5000;
/** From the start of a successful fetch to the start of the next, while the key set is in use. */
export const JWKS_REFRESH_MS = 2000;
/** One fetch, from connecting to the last byte. Together with `JWKS_REFRESH_MS` it ends while the earlier copy is fresh. */
export const JWKS_FETCH_MS_MAX = 3000;
export const JWKS_ADDRESSES_MAX = 4;
/** Concurrent fetches of one process. The runtime allows 256 in all, and S3 needs most of them. */
export const JWKS_FETCHES_MAX = 64;
/** Requests that may wait for key sets at once, shared by Apps. Further requests are told to retry. */
export const JWKS_WAITERS_MAX = 1024;
/** Delay after a failed fetch. */
export const JWKS_RETRY_MS = 1000;

export const REGISTRY_RELOAD_MS = 1000;
/** Minimum interval between reads that unknown issuers cause. */
export const REGISTRY_LOOK_AGAIN_MS = 1000;
export const REGISTRY_READ_MS_MAX = 3000;

/** `Retry-After` of 503 `registry_unavailable`. */
const REGISTRY_RETRY_AFTER_SECONDS = 2;

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
