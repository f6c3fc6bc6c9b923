/** What the sweep and the scrub ask of a store of rows. */

import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { ContentRow, Generation, NodeRow, ObjectKey, Space } from './model.ts';
import type { PackId } from './pack-model.ts';

export interface SpacesToSweep {
  readonly spaces: readonly Space[];
  /** Damage that hides which Spaces have something due: some of `spaces` are then there only because it is their turn. */
  readonly failure: unknown;
}

/** Verbs of `MetadataStore` (ports.ts). */
export interface Upkeep {
  /** Up to `limit` Spaces that have something for the sweep at `now`, `cutoffs` applied; order free, fair over calls. */
  findSpacesToSweep(cutoffs: SweepCutoffs, limit: number): Awaitable<SpacesToSweep>;
  /** Advances lease watermarks and prunes root-ref history in bounded steps; returns true when more is left to do. */
  maintain(cutoffs: SweepCutoffs): Promise<boolean>;
  /** Bounded walk over all node rows that have content, for the scrub. `after` resumes; `undefined` result = end. */
  findNodesToScrub(
    after: ScrubPosition | undefined,
    limit: number,
  ): Awaitable<{ readonly items: readonly ScrubItem[]; readonly next: ScrubPosition | undefined }>;
  /**
   * Up to `limit` Spaces with rotten rows, after `after` in an order of the engine's own. Each comes with its number of rotten
   * rows, counted up to `ROTTEN_COUNT_MAX`. The engine has an index of rotten rows alone, because every process asks every few
   * seconds.
   */
  findRottenSpaces(
    after: RottenSpace['position'] | undefined,
    limit: number,
  ): Awaitable<readonly RottenSpace[]>;
  /**
   * A bounded walk over the uploads and open packs of all Spaces whose bytes nobody has seen, and whose URLs end after that instant.
   * Asked only where the store takes uploads itself.
   */
  findUnseenUploads(walk: UnseenWalk): Awaitable<UnseenPage>;
  /** Which generations among `keys` still have a record (upload, content, pack, or discard), or are packs that a content names. */
  findKnownGenerations(keys: readonly ObjectKey[]): Awaitable<ReadonlySet<Generation>>;
}

export interface UnseenWalk {
  /** opaque: the `next` of the last page; undefined: from the start */
  readonly after: string | undefined;
  /** ms */
  readonly urlsEndAfter: number;
  readonly limit: number;
}

export interface UnseenPage {
  readonly items: readonly UnseenUpload[];
  /** undefined: that was the end */
  readonly next: string | undefined;
}

export interface UnseenUpload {
  readonly space: Space;
  readonly generation: Generation;
  /** of a node, or of a pack */
  readonly of: { readonly hash: Hash } | { readonly pack: PackId };
}

export interface SweepCutoffs {
  readonly now: number;
  /** waiting rows touched at or before this, and uploads with max(touchedAt, urlExpiresAt) at or before this, go */
  readonly abandonedAt: number;
  /** root-ref history superseded at or before this may go */
  readonly historyAt: number;
}

/**
 * The rotten rows of one Space are counted up to this number, because every process counts them every few seconds. One lost pack has
 * up to 4,096.
 */
export const ROTTEN_COUNT_MAX = 10_000;

export interface RottenSpace {
  readonly space: Space;
  readonly nodes: number;
  /** opaque: the `after` of the next call */
  readonly position: string;
}

/** Opaque resume point of the scrub's walk. */
export type ScrubPosition = string;

export interface ScrubItem {
  readonly space: Space;
  readonly node: NodeRow;
  readonly content: ContentRow | undefined;
  /** the row is older than sums: its bytes prove it, and then it gets one */
  readonly isUnsummed?: true;
}
