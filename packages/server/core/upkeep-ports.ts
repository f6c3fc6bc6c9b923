/** Ports of the sweep and the scrub to a store of rows. */

import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { ContentRow, Generation, NodeRow, ObjectKey, Space } from './model.ts';
import type { PackId } from './pack-model.ts';
import type {
  CompactablePack,
  CompactionWanted,
  ContentsWanted,
  RecordsWanted,
  SpacesWanted,
  SpaceToPack,
} from './pack-ports.ts';
import type { SpaceEntry, SpacePage } from './tenancy-ports.ts';

export interface SpacesToSweep {
  readonly spaces: readonly Space[];
  /** Damage that hides which Spaces have something due: some of `spaces` are then there only because it is their turn. */
  readonly failure: unknown;
}

/** The reads of background work, a bounded page at a time. `after` resumes a walk; left out, the walk begins. */
export interface Pages {
  /**
   * Every Space that was ever written, also of Apps that are not registered any more, in an order of the engine's own that never
   * changes. Fewer than `limit` only at the end. Damage to what is counted in one Space hides no other.
   */
  readonly spaces: Paged<SpacePage, readonly SpaceEntry[]>;
  /** Up to `limit` Spaces that have something for the sweep at `now`, `cutoffs` applied; order free, fair over calls. */
  readonly spacesToSweep: Paged<SweepWanted, SpacesToSweep>;
  /** Bounded walk over all node rows that have content, for the scrub. */
  readonly nodesToScrub: Paged<Walk, Step<ScrubItem>>;
  /** Up to `limit` Spaces with rotten rows, counted up to `ROTTEN_COUNT_MAX`. Needs an index, because it is asked every few seconds. */
  readonly rottenSpaces: Paged<Walk, readonly RottenSpace[]>;
  /** Rotten nodes of the Space, at most `limit` of them, in no order. */
  readonly rottenNodes: Paged<{ readonly space: Space; readonly limit: number }, readonly Hash[]>;
  /** A walk over uploads and open packs whose bytes nobody has seen, whose URLs end later. Only where the store takes uploads. */
  readonly unseenUploads: Paged<UnseenWalk, Step<UnseenUpload>>;
  /** Judged packs with live and dead records: first those with one long dead, the longest first, then by most dead bytes. */
  readonly packsToCompact: Paged<CompactionWanted, readonly CompactablePack[]>;
  /** The content rows that name the pack, by their offset, after `after`. */
  readonly packRecords: Paged<RecordsWanted, readonly ContentRow[]>;
  /** Up to `limit` Spaces with small nodes that are objects of their own, from an index of such contents alone. */
  readonly spacesToPack: Paged<SpacesWanted, readonly SpaceToPack[]>;
  /** Such contents of one Space, by their generations, after `after`. Some may belong to no node that is ready. */
  readonly contentsToPack: Paged<ContentsWanted, readonly ContentRow[]>;
  /** The generations among them that still have a record (upload, content, pack, or discard), or are packs that a content names. */
  readonly knownGenerations: Paged<readonly ObjectKey[], ReadonlySet<Generation>>;
  /** When each of them was first found without a record, ms. */
  readonly tombstones: Paged<readonly Generation[], ReadonlyMap<Generation, number>>;
  /** A short text that is kept with the rows under this name, as it was set last. */
  readonly note: Paged<string, string | undefined>;
}

interface Paged<Wanted, Page> {
  readonly wanted: Wanted;
  readonly page: Page;
}

/** One function for each kind of page. */
export type PageReads = {
  readonly [K in keyof Pages]: (wanted: Pages[K]['wanted']) => Awaitable<Pages[K]['page']>;
};

/** The writes of background work. */
export interface Settlements {
  /** Notes when a walk first found them without a record. Forgets `known` ones, and those that no walk has met for long. */
  readonly tombstones: TombstonePage;
  /** Raises all revisions by this step, also those of domains to come, and ends earlier pages. Call while no server runs. */
  readonly revisions: number;
  /** Keeps a text that `assertNote` takes with the rows. A whole number is only raised, in one step for all servers. */
  readonly note: Note;
}

export interface Upkeep {
  page<K extends keyof Pages>(kind: K, wanted: Pages[K]['wanted']): Awaitable<Pages[K]['page']>;
  /** Durable when it resolves. */
  settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void>;
  /** Advances lease watermarks, prunes root-ref history and forgets old commits, in bounded steps. */
  maintain(cutoffs: SweepCutoffs): Promise<Maintained>;
}

export interface Maintained {
  readonly moreToDo: boolean;
  /** commits whose records were deleted (core/commit-records.ts) */
  readonly forgottenCommits: number;
}

export interface Walk {
  /** opaque: where the page before ended */
  readonly after: string | undefined;
  readonly limit: number;
}

/** A page of a walk. */
export interface Step<Item> {
  readonly items: readonly Item[];
  /** undefined: that was the end */
  readonly next: string | undefined;
}

export interface UnseenWalk extends Walk {
  /** ms */
  readonly urlsEndAfter: number;
}

interface SweepWanted {
  readonly cutoffs: SweepCutoffs;
  readonly limit: number;
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
  /** ms after which records of commits may go; undefined: never */
  readonly commitRecordsKeptMs?: number | undefined;
}

/** Rotten rows of one Space are counted up to this number, because every process counts them often. One lost pack has up to 4,096. */
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

/** Whether the clocks that collection rests on agree. */
export interface ClockGuard {
  /** Resolves with the instant (ms) to judge leases by. Rejects with StoreUnavailable while clocks disagree or cannot be read. */
  assertAgree(): Promise<number>;
}

/** Ports for the repair of a damaged row, within one transaction (core/lease/mend-node.ts). */
export interface NodeMending {
  /** The current row, damaged or not; an impossible number is replaced by 0. undefined if there is none. */
  findUnproven(hash: Hash): Awaitable<UnprovenNode | undefined>;
  /**
   * The rows of all `hashes` say that nothing holds them. Returns those that something may hold all the same: a balance names the hash, or
   * there is a row whose key differs in one bit of the hash or of the Space.
   */
  findDoubted(hashes: readonly Hash[]): Awaitable<readonly Hash[]>;
  /** Replaces the current row by `row`. Of all counters only the one of leases is updated. */
  replaceNode(stands: NodeRow, row: NodeRow): Awaitable<void>;
}

export interface UnprovenNode {
  readonly row: NodeRow;
  /** whether a row with these values has the sum that this one carries */
  readonly hasSumOf: (row: NodeRow) => boolean;
  /** How many refs and balances of the Space name its hash, including those in unproven rows. */
  readonly countHolders: () => Awaitable<NodeHolders>;
}

export type NodeHolders = Pick<NodeRow, 'childRefCount' | 'rootRefCount' | 'heldDomainCount'>;

/** Finds the generations among `keys` that have a record: a page of `knownGenerations`. */
export type FindKnown = (keys: readonly ObjectKey[]) => Awaitable<ReadonlySet<Generation>>;

/** Ports to the rows for the walk over all objects of the store of bytes (core/stray-watch.ts). */
interface Note {
  readonly name: string;
  readonly value: string | number;
}

/** PostgreSQL keeps no NUL in a text, and no engine half a surrogate pair. */
export function assertNote({ name, value }: Note): void {
  const text = `${name} ${value}`;
  if (text.includes('\0') || !text.isWellFormed()) throw new RangeError('a note is text without NUL');
}

interface TombstonePage {
  /** they have no record */
  readonly unknown: readonly Generation[];
  /** they have one */
  readonly known: readonly Generation[];
  readonly now: number;
  /** tombstones that no walk has come across since then go: their objects are gone */
  readonly seenSince: number;
}

export interface WalkKeeper {
  /** Resolves with the objects that must stay; rejects if the walk must stop. */
  findKept: FindKnown;
  /** How far the walk has come, for a process that goes on with it; undefined: it begins, or has ended. */
  readPlace(): Awaitable<string | undefined>;
  notePlace(place: string | undefined): Promise<void>;
}
