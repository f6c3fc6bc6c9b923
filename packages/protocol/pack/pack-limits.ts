/** The limits of a pack and the numbers of its codecs (docs/bulk.md, Pack format). */

import { MIB_BYTES } from '../units.ts';

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
