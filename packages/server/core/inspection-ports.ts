/** Ports to the rows for inspecting a whole Space, besides those for requests (core/ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { Generation, NodeRow, PackPlace, RootRefBalance, Space } from './model.ts';
import type { PackId, PackUse } from './pack-model.ts';
import type { UsageDelta } from './usage-delta.ts';

export interface ContentFacts {
  readonly generation: Generation;
  readonly canonicalSize: number;
  /** length of the inline bytes; undefined: the bytes are an object, or a record of a pack */
  readonly inlineLength: number | undefined;
  /** of an object, or of the record of a pack */
  readonly integrity: Uint8Array;
  /** set for the record of a pack */
  readonly packed?: PackPlace | undefined;
}

export interface InspectedNode {
  readonly row: NodeRow;
  /** the counter of leases counts this row */
  readonly isLeaseCounted: boolean;
  readonly content: ContentFacts | undefined;
}

/** An upload whose bytes were found good, and that no lease has published yet. */
export interface FinishedUpload {
  readonly hash: Hash;
  readonly generation: Generation;
  readonly canonicalSize: number;
  /** the bytes are in the record of its content */
  readonly inline: boolean;
  readonly integrity: Uint8Array;
}

export interface InspectedDomain {
  readonly domain: string;
  readonly revision: number;
  /** revisions up to this may have no commit: a restore or a purge raised the revision, or history was pruned; 0: all have one */
  readonly historyFloor: number;
  /** how many commits are recorded after that */
  readonly commits: number;
  /** the largest revision of any commit; 0 if there are none */
  readonly lastRevision: number;
}

export interface InspectedBalance extends RootRefBalance {
  readonly fromRevision: number;
  /** the largest revision at which an older balance of the node ended; 0 if none is recorded */
  readonly historyEnd: number;
}

/** The live records of a pack: as they are kept, and as the content rows that name it say. */
export interface InspectedPack {
  readonly id: PackId;
  readonly generation: Generation;
  readonly kept: LiveRecords;
  readonly counted: LiveRecords;
}

type LiveRecords = Pick<PackUse, 'liveRecords' | 'liveBytes'>;

export interface KeptCounters extends UsageDelta {
  readonly leasedCount: number;
}

export interface NodesAround {
  readonly nodes: readonly InspectedNode[];
  /** the nodes of the page whose rows, or content records, cannot be read, and why; `node`: only its counts are in doubt */
  readonly unreadable: readonly {
    readonly hash: Hash;
    readonly reason: string;
    readonly node?: InspectedNode;
  }[];
  /** after which the next page begins; undefined: this is the last one */
  readonly next: Hash | undefined;
}

/** The committed rows of one Space at one instant, whatever is written meanwhile. */
export interface SpaceSnapshot {
  /** ms, by the store's clock */
  readonly now: number;
  findNode(hash: Hash): Awaitable<NodeRow | undefined>;
  /** in the order of hashes, after `after`; fewer than `limit` only at the end */
  readNodes(after: Hash | undefined, limit: number): Awaitable<readonly InspectedNode[]>;
  /** as `readNodes` */
  readUploads(after: Hash | undefined, limit: number): Awaitable<readonly FinishedUpload[]>;
  readLooseEdges(
    after: Hash | undefined,
    limit: number,
  ): Awaitable<readonly { readonly hash: Hash; readonly count: number }[]>;
  /** All of them: there are few in a Space. */
  readDomains(): Awaitable<readonly InspectedDomain[]>;
  readBalances(
    domain: string,
    after: Hash | undefined,
    limit: number,
  ): Awaitable<readonly InspectedBalance[]>;
  findBalancesOf(hash: Hash): Awaitable<readonly { readonly domain: string; readonly balance: number }[]>;
  /** in the order of their ids, after `after` */
  readPacks(after: PackId | undefined, limit: number): Awaitable<readonly InspectedPack[]>;
  readKeptCounters(): Awaitable<KeptCounters>;
  /** As `readNodes`, around rows and content records that are damaged. Rejects with damage if that leaves no way on. */
  readNodesAround(after: Hash | undefined, limit: number): Promise<NodesAround>;
}

/** Progress and cancellation of a check of a store's pages. */
interface PageLook {
  readonly signal: AbortSignal;
  /** called with the next table to check */
  readonly onTable: (table: string) => void;
}

/** A table or an index that has a damaged page, or does not fit the other. */
export interface PageDamage {
  readonly message: string;
  /** a row or a domain that keeps a node may be missed: until this is repaired, no count is lowered */
  readonly isProtecting: boolean;
  readonly repaired: boolean;
}

/** A row that does not have the sum that it carries (docs/design.md, Rows are proven). */
export interface RowDamage {
  readonly table: string;
  /** undefined if the owner is unknown */
  readonly space: Space | undefined;
  readonly hash: Hash | undefined;
  /** names the table, the key of the row, and what is wrong */
  readonly message: string;
  /** it may keep a node: until this is repaired, no count is lowered */
  readonly isProtecting: boolean;
  /** the row is as it was written again */
  readonly repaired: boolean;
  /** The row is removed, because its node has another one: no row names this record any more. */
  readonly freed?: Generation | undefined;
}

export interface RowLook extends PageLook {
  /** repairs rows in which one bit is wrong, and rebuilds indexes */
  readonly isRepaired: boolean;
  /** undefined: all tables */
  readonly onlyTable?: 'domains';
  /** called with the number of rows of a table that are older than sums */
  readonly onUnsummed?: ((rows: number) => void) | undefined;
}

export interface SpaceInspection {
  /** All damaged rows of all Spaces. Left out where rows have no sums. */
  findRowDamage?(look: RowLook): Promise<readonly RowDamage[]>;
  /** Each table or index that has a damaged page. Only a repair holds up writers. Absent where the store does not look at pages. */
  findPageDamage?(look: RowLook): Promise<readonly PageDamage[]>;
  /** Holds one instant until `work` is done, so `work` waits for nothing but the snapshot. A Space that never was is empty. */
  inspect<T>(space: Space, work: (snapshot: SpaceSnapshot) => Promise<T>): Promise<T>;
}
