/** The rows and values that core and engines share. Plain data: no I/O, no behaviour. */
import type { Hash, RejectionCode } from '@holdfast/protocol';

/** A Space as engines key it: 32 lowercase hex digits (core/space-key.ts). */
export type SpaceKey = string;

/** One tenant's namespace: nothing crosses it. Two different strings never share data. */
export interface Space {
  readonly appId: string;
  readonly spaceId: string;
}

/**
 * Names one upload generation for ever: 32 lowercase hex digits, the first 12 the creation time in ms.
 * It is also the generation-scoped, write-once key of the bytes; never reused.
 */
export type Generation = string;

/** Names a stored object, with all that is needed to find its records. */
export interface ObjectKey {
  readonly spaceKey: SpaceKey;
  readonly generation: Generation;
}

/**
 * Where the bytes of a node are. `object`: an object of the content store. `inline`: a row of the metadata store. `packed`: a record
 * of a pack, which is one object with many nodes.
 */
export type NodeStorage = 'object' | 'inline' | 'packed';

/** `waiting`: validated, never ready. `rotten`: was ready, content proven bad. `claimed`: a collection has begun. */
export type NodeRowState = 'waiting' | 'ready' | 'rotten' | 'claimed';

/** One node row. Immutable: hash, size, contentType, refs, canonicalSize. */
export interface NodeRow {
  readonly hash: Hash;
  readonly state: NodeRowState;
  /** logical content length, bytes */
  readonly size: number;
  /** header + content, bytes */
  readonly canonicalSize: number;
  readonly contentType: string;
  /** ordered children, 32 raw bytes each, duplicates kept */
  readonly refs: Uint8Array;
  /** where the bytes are */
  readonly generation: Generation;
  readonly storage: NodeStorage;
  /** bytes that `readyStoredBytes` counts, fixed at publication or healing: canonical size, or stored length of a pack's record */
  readonly storedSize: number;
  /** ms; 0 when never leased */
  readonly leaseStartedAt: number;
  /** ms; 0 when never leased */
  readonly leaseExpiresAt: number;
  readonly childRefCount: number;
  /** aggregate over all domains, never negative */
  readonly rootRefCount: number;
  /** how many domains hold a balance other than 0 */
  readonly heldDomainCount: number;
  /** ms; last lease call while waiting (docs/design.md, What the sweep removes), else 0 */
  readonly waitingTouchedAt: number;
  /** ms; until then the sweep leaves the claim to the pass that works on it; 0 unless claimed */
  readonly claimHeldUntil: number;
}

/** What validation learned about one received object. The content store makes and checks `integrity`. */
export type UploadEvidence =
  | {
      readonly verdict: 'good';
      readonly canonicalSize: number;
      readonly size: number;
      readonly contentType: string;
      readonly refs: Uint8Array;
      readonly integrity: Uint8Array;
      readonly inline: boolean;
    }
  | { readonly verdict: 'bad'; readonly code: RejectionCode; readonly message: string };

/** The current upload generation of a hash and what is known of it. At most one per hash. */
export interface UploadRow {
  readonly hash: Hash;
  readonly generation: Generation;
  readonly createdAt: number;
  /** ms; when the last URL signed for this generation expires */
  readonly urlExpiresAt: number;
  /** ms; last lease call */
  readonly touchedAt: number;
  /** why the previous generation was rejected; kept until a good upload */
  readonly rejection: { readonly code: RejectionCode; readonly message: string } | undefined;
  /** set once the generation is finished (an acknowledged PUT, or one cut off with 413) */
  readonly evidence: UploadEvidence | undefined;
}

/** 0: as it is, 1: one zstd frame */
export type PackCodec = 0 | 1;

/** A record of a pack: the stored bytes of one node within an object that holds many. */
export interface PackPlace {
  /** of the pack's object */
  readonly pack: Generation;
  /** where the stored bytes begin in the object */
  readonly offset: number;
  /** bytes */
  readonly storedLength: number;
  readonly codec: PackCodec;
}

/** The integrity record of published content, with the bytes themselves if they are inline. */
export interface ContentRow {
  readonly generation: Generation;
  readonly canonicalSize: number;
  readonly integrity: Uint8Array;
  readonly inlineBytes: Uint8Array | undefined;
  /** set for the record of a pack, which is found there and not under `generation`; compaction changes it */
  readonly packed?: PackPlace | undefined;
  /** ms; when the last URL that lets a client write this key expires; 0 where our own upload target judges every PUT */
  readonly urlExpiresAt: number;
}

/** The object of a closed generation is to be deleted, and deleted again once no URL can write it any more. */
export interface DiscardRow {
  readonly generation: Generation;
  /** ms; the object is not deleted before */
  readonly dueAt: number;
  /** as ContentRow's */
  readonly urlExpiresAt: number;
}

/** 32 lowercase hex digits, 128 random bits. Names a pack to clients, within one Space. */
export type PackId = string;

/** `open`: nothing is judged. `judging`: its records are being published. `judged`: they were, or it was given up. */
export type PackState = 'open' | 'judging' | 'judged';

/** One stored object that holds many nodes. */
export interface PackRow {
  readonly id: PackId;
  /** the key of its object */
  readonly generation: Generation;
  readonly state: PackState;
  readonly createdAt: number;
  /** ms; when the last URL signed for it expires */
  readonly urlExpiresAt: number;
  /** ms; last lease call that opened it or asked for it */
  readonly touchedAt: number;
  /** SHA-256 over the hashes that it was opened for, in order */
  readonly asked: Uint8Array;
  /** bytes of the object; undefined until it is known to be complete */
  readonly bytes: number | undefined;
  /** records that are published so far, in the order of publication */
  readonly publishedCount: number;
  /** kept free for the records that are not published yet */
  readonly reserved: { readonly bytes: number; readonly nodes: number };
  /** the object is gone, or a discard */
  readonly isDiscarded: boolean;
}

/** What the records of a pack were judged to be. Kept until 24 h after the last lease of the pack. */
export interface PackVerdicts {
  /** of all records in the order of the pack, 32 raw bytes each */
  readonly hashes: Uint8Array;
  readonly rejections: readonly PackRejection[];
  /** nothing was judged from this byte on */
  readonly broken: { readonly byte: number; readonly message: string } | undefined;
}

export interface PackRejection {
  /** of the record in the pack */
  readonly index: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** Live records of a pack: those that content rows name. The engine keeps them true. */
export interface PackUse {
  readonly liveRecords: number;
  /** stored bytes */
  readonly liveBytes: number;
  /** ms; when a record first stopped being live; 0: all are */
  readonly firstDeadAt: number;
}

export interface SpaceCounters {
  readonly nodeCount: number;
  readonly readyContentBytes: number;
  readonly readyStoredBytes: number;
  /** canonical bytes of waiting parents */
  readonly waitingBytes: number;
  readonly notReadyNodeCount: number;
  /** unexpired leases at the instant of the read */
  readonly leasedNodeCount: number;
}

export interface RootRefCommit {
  readonly requestId: string;
  /** SHA-256 of the canonical payload */
  readonly payloadDigest: Uint8Array;
  readonly revision: number;
}

export interface RootRefBalance {
  readonly hash: Hash;
  readonly balance: number;
}
