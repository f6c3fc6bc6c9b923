/** Limits of authorization that no client needs to know; those that a client can meet are in the protocol package. */

/** Longest capability, characters: far above any real one. It bounds the work that an unknown sender can cause. */
export const TOKEN_CHARACTERS_MAX = 8192;
/** Nesting of arrays and objects in header and claims; issuers may add claims of their own. */
export const TOKEN_JSON_DEPTH_MAX = 16;

/** Verified capabilities remembered by one process; about 1 KiB each. */
export const CAPABILITY_CACHE_ENTRIES_MAX = 16_384;

export const JWKS_BYTES_MAX = 256 * 1024;
export const JWKS_KEYS_MAX = 100;
export const JWKS_JSON_DEPTH_MAX = 16;
/** Characters of a key's `kid`. */
export const KEY_ID_CHARACTERS_MAX = 256;
export const RSA_MODULUS_BITS_MIN = 2048;
export const RSA_MODULUS_BITS_MAX = 8192;
export const RSA_EXPONENT_BITS_MAX = 32;

/** No key set is used when older than this, unless fetching it fails. */
export const JWKS_FRESH_MS_MAX = 5000;
/** From the start of a good fetch to the start of the next, while in use. */
export const JWKS_REFRESH_MS = 2000;
/** One fetch, from connecting to the last byte. Together with `JWKS_REFRESH_MS` it ends while the earlier copy is fresh. */
export const JWKS_FETCH_MS_MAX = 3000;
/** Addresses of one host that are tried, one after another. */
export const JWKS_ADDRESSES_MAX = 4;
/** Fetches of one process at once; the runtime has 256 for everything, and S3 needs most of them. */
export const JWKS_FETCHES_MAX = 64;
/** Requests that wait for key sets at once, shared by Apps; further ones are told to come again. */
export const JWKS_WAITERS_MAX = 1024;
/** From a failed fetch to the next. */
export const JWKS_RETRY_MS = 1000;
/** A key set that no request needed for this long is no longer fetched. */
export const JWKS_IN_USE_MS = 60_000;

/** From one reading of the registry to the next, off the request path. */
export const REGISTRY_RELOAD_MS = 1000;
/** From one reading because of an unknown issuer to the next, however many requests name one. */
export const REGISTRY_LOOK_AGAIN_MS = 1000;
/** One reading of the registry. */
export const REGISTRY_READ_MS_MAX = 3000;

/** What a caller is told to wait after 503 `registry_unavailable`. */
export const REGISTRY_RETRY_AFTER_SECONDS = 2;
