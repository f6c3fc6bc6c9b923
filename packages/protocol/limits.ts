/** Every limit of the interface, its unit in its name. Defaults may be configured. */

/** Units of time and size. A quantity with a unit is written as a multiple of one of these. */
export const NS_PER_MS = 1_000_000;
export const BIG_NS_PER_MS = 1_000_000n;
export const BIG_NS_PER_S = 1_000_000_000n;

export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

export const KIB_BYTES = 1024;
export const MIB_BYTES = 1024 * KIB_BYTES;

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
/** An operator may forget commits that are older. Until then a client may send a request again whose answer it has not got. */
export const COMMIT_RECORDS_KEPT_MS_MIN = 7 * DAY_MS;

/** Unicode code points. */
export const REQUEST_ID_CHARACTERS_MAX = 256;
/** Unicode code points after percent-decoding. */
export const PATH_ID_CHARACTERS_MAX = 256;
export const REF_DOMAIN_CHARACTERS_MAX = 64;

export const JSON_BODY_BYTES_MAX = 1 * MIB_BYTES;
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

/** The limits of Bulk's requests and answers (docs/bulk.md). */
export const BULK_HASHES_MAX = 4_096;
/** Once an answer holds this many `childHashes`, later waiting results carry only their first. */
export const BULK_CHILD_HASHES_MAX = 16_384;
/** An answered pack keeps the ready nodes of its answer leased so long past its URL. */
export const PACK_LEASE_MARGIN_MS = 60 * SECOND_MS;

/** Codecs that a reader may say it can unpack. */
export const BULK_CODECS = ['zstd'] as const;

export type BulkCodec = (typeof BULK_CODECS)[number];

/** The limits of a pack and the numbers of its codecs (docs/bulk.md, Pack format). */
export const PACK_MEDIA_TYPE = 'application/vnd.holdfast.cas-pack.v1';

export const PACK_BYTES_MAX = 64 * MIB_BYTES;
export const PACK_RECORDS_MAX = 4_096;
export const PACK_REFS_MAX = 65_536;
/** The largest canonical node that travels in a pack. */
export const PACK_NODE_BYTES_MAX = 8 * MIB_BYTES;
/** The most a decoder of a record's frame has to look back. */
export const ZSTD_WINDOW_BYTES_MAX = 8 * MIB_BYTES;

/** The canonical bytes as they are. */
export const RECORD_CODEC_NONE = 0;
/** One Zstandard frame (RFC 8878). */
export const RECORD_CODEC_ZSTD = 1;

export type RecordCodec = typeof RECORD_CODEC_NONE | typeof RECORD_CODEC_ZSTD;
