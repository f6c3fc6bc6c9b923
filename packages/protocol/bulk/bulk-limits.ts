/** The limits of Bulk's requests and answers (docs/bulk.md). */

import { SECOND_MS } from '../units.ts';

export const BULK_HASHES_MAX = 4_096;
/** Once an answer holds this many `childHashes`, later waiting results carry only their first. */
export const BULK_CHILD_HASHES_MAX = 16_384;
/** An answered pack keeps the ready nodes of its answer leased so long past its URL. */
export const PACK_LEASE_MARGIN_MS = 60 * SECOND_MS;

/** Codecs that a reader may say it can unpack. */
export const BULK_CODECS = ['zstd'] as const;

export type BulkCodec = (typeof BULK_CODECS)[number];
