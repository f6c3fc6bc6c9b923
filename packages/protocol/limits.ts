/** Every limit of the interface, its unit in its name. Defaults may be configured. */

import { HOUR_MS, MIB_BYTES, MINUTE_MS, SECOND_MS } from './units.ts';

/** The largest magnitude of an integer in any payload. */
export const INTEGER_MAX = Number.MAX_SAFE_INTEGER;

/** Largest canonical node; exactly this is accepted. */
export const NODE_BYTES_MAX_DEFAULT = 64 * MIB_BYTES;
export const NODE_REFS_MAX = 256;
export const CONTENT_TYPE_BYTES_MAX = 1024;

export const LEASE_DURATION_MS_MIN = 60 * SECOND_MS;
export const LEASE_DURATION_MS_MAX = 24 * HOUR_MS;

export const GC_NODES_DEFAULT = 100;
export const GC_NODES_MAX = 10_000;

export const ROOT_REFS_PAGE_DEFAULT = 50;
export const ROOT_REFS_PAGE_MAX = 200;
export const ROOT_REF_CHANGES_MAX = 1000;
export const ROOT_REF_DELTA_MAX = 1_000_000;
/** How long a page walk can continue after its revision was superseded. */
export const ROOT_REF_HISTORY_MS = 24 * HOUR_MS;

/** Unicode code points. */
export const REQUEST_ID_CHARACTERS_MAX = 256;
/** Unicode code points after percent-decoding. */
export const PATH_ID_CHARACTERS_MAX = 256;
export const REF_DOMAIN_CHARACTERS_MAX = 64;

export const JSON_BODY_BYTES_MAX = MIB_BYTES;
/** Nesting of arrays and objects; the deepest request of the interface has 2. */
export const JSON_DEPTH_MAX = 8;
/** Values in a body, those within others included; the largest request of the interface has some 4,100. */
export const JSON_VALUES_MAX = 16_384;

export const ACTIVE_UPLOADS_MAX_DEFAULT = 1024;
export const UPLOAD_TTL_MS_DEFAULT = 5 * MINUTE_MS;
/** Unfinished uploads and waiting parents are dropped this long after they were last asked for. */
export const ABANDONED_AFTER_MS = 24 * HOUR_MS;

export const CLOCK_TOLERANCE_MS = 30 * SECOND_MS;
export const TOKEN_LIFETIME_MS_MAX_DEFAULT = 24 * HOUR_MS;
/** No process uses registry rows older than this. */
export const REGISTRY_STALE_MS_MAX = 5 * SECOND_MS;
/** A key set copy serves on this long while fetching it fails. */
export const JWKS_STALE_MS_MAX = 60 * SECOND_MS;
