/** The client's own limits. Those of the interface are in the protocol package. */

import { MIB_BYTES, MINUTE_MS, SECOND_MS } from '@holdfast/protocol';

/** Time limits of one attempt. Waiting between attempts is not counted. */
export interface Timeouts {
  /** From sending to the end of a JSON answer, or to the headers of a content answer. */
  readonly answerMs: number;
  /** The same for a collection pass, which deletes up to `maxNodes` contents before it answers. */
  readonly gcMs: number;
  /** From sending to the end of the answer about a pack, all of whose nodes may be validated and published first. */
  readonly packMs: number;
  readonly uploadMs: number;
  /** The silence allowed between two chunks of content while the caller is waiting for one. */
  readonly contentIdleMs: number;
}

export const TIMEOUTS_DEFAULT: Timeouts = {
  // A lease may validate an uploaded node of the largest size before it answers.
  answerMs: MINUTE_MS,
  gcMs: 5 * MINUTE_MS,
  packMs: 5 * MINUTE_MS,
  uploadMs: 5 * MINUTE_MS,
  contentIdleMs: 30 * SECOND_MS,
};

/** The largest answer of the interface that is no content is a page of 200 roots, about 20 KiB. */
export const JSON_ANSWER_BYTES_MAX = MIB_BYTES;

/** An honest answer has fewer arrays and objects than one in so many bytes. */
export const JSON_PART_BYTES_MIN = 16;

/** 4,096 results of Bulk: 16,384 child hashes and a few more, or a message for each. */
export const BULK_ANSWER_BYTES_MAX = 8 * MIB_BYTES;

/** After a server said that it has no Bulk, so long nobody asks it again. */
export const BULK_PROBE_PAUSE_MS = 5 * MINUTE_MS;

/** Characters of a server's message that are kept. */
export const MESSAGE_CHARACTERS_MAX = 1_000;

/** Root refs that are collected into one list. A domain with more is walked page by page. */
export const ROOT_REFS_HELD_MAX = 1_000_000;

/** Content of the catalogs of one domain, in all: some 100,000 snapshots. */
export const CATALOGS_BYTES_MAX = 32 * MIB_BYTES;

/** Content that comes more slowly, while it is waited for, counts as broken off. */
export const CONTENT_BYTES_PER_S_MIN = 1024;

/** Rounds of lease and PUT in one `putNode`. */
export const PUT_ROUNDS_MAX = 6;

/** How often bytes that were damaged on the way are sent again. */
export const DAMAGED_UPLOADS_MAX = 2;

/** The lease that `putNode`, a keeper, and a push for nodes below its root ask for when not told. */
export const LEASE_DURATION_MS_DEFAULT = 60 * MINUTE_MS;

/** Contents that `putNode` reads out of Blobs, and that `putNodes` has on their way, at once. A larger one goes alone. */
export const PUT_BYTES_IN_MEMORY_MAX = 32 * MIB_BYTES;

/** Nodes that a reader asks for in one request, or at once without Bulk. */
export const NODES_IN_BULK_MAX = 1_024;
export const NODES_AT_ONCE_MAX = 8;

/** How often a keeper looks at its clock. A due renewal waits at most so long, and so does the keeper's notice that the machine slept. */
export const KEEPER_TICK_MS = 5 * SECOND_MS;

/** The longest wait after failed renewals. The first is up to 2 s, each further one up to twice as long. */
export const KEEPER_RETRY_MS_MAX = MINUTE_MS;

/** A renewal that takes longer has failed. */
export const TOKEN_RENEWAL_TIMEOUT_MS = 30 * SECOND_MS;
