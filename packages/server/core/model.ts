/** The rows and values that core and engines share. Plain data: no I/O, no behaviour. */
import type { Hash, RejectionCode } from '@holdfast/protocol';

export interface Receiving {
  /** what quotas count of those PUTs to the Space that began earlier, by all processes, and have not ended */
  heldBefore(): number;
  /** Resolves after a moment in which some of them may end. */
  pause(): Promise<void>;
}

/** Called before the body is read, when the PUT counts as being received: what it throws refuses the PUT. */
export type Admit = (receiving: Receiving) => Promise<void>;

/** A Space as engines key it: 32 lowercase hex digits (core/space-map.ts). */
export type SpaceKey = string;

/** One tenant's namespace: nothing crosses it. Two different strings never share data. */
export interface Space {
  readonly appId: string;
  readonly spaceId: string;
}

/** One upload generation and write-once key of its bytes, never reused: 32 lowercase hex digits, the first 12 the creation time in ms. */
export type Generation = string;

/** Names a stored object, with all that is needed to find its records. */
export interface ObjectKey {
  readonly spaceKey: SpaceKey;
  readonly generation: Generation;
}

/** Where a node's bytes are: an object of the content store, a row of the metadata store, or a record of a pack. */
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

/** The result of validating one received object. The content store makes and checks `integrity`. */
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
  /** bytes that a store which takes uploads itself was seen to hold for it, while it has no evidence */
  readonly seenBytes?: number | undefined;
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
