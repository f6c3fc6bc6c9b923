/**
 * How stores give and take a whole deployment. Rows travel as entries in the model's own words, page by page in key order,
 * and every store of rows gives and takes the same. Bytes travel once, from the source's ContentStore to the target's
 * ContentIntake. As elsewhere: absence is `undefined`, failure throws.
 */
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, Generation, NodeRow, Space, SpaceCounters, UploadRow } from '../core/model.ts';
import type { StoredObject } from '../core/ports.ts';

export interface NodeEntry {
  readonly row: NodeRow;
  readonly content: ContentRow | undefined;
}

export interface UploadEntry {
  readonly row: UploadRow;
  /** there when its evidence is good */
  readonly content: ContentRow | undefined;
}

interface LooseEdgeEntry {
  readonly hash: Hash;
  readonly count: number;
}

interface DomainEntry {
  readonly domain: string;
  readonly revision: number;
  readonly historyFloor: number;
}

interface BalanceEntry {
  readonly hash: Hash;
  readonly balance: number;
  readonly fromRevision: number;
}

/** What a balance was in revisions [fromRevision, toRevision). */
interface HistoryEntry {
  readonly hash: Hash;
  readonly fromRevision: number;
  readonly toRevision: number;
  readonly balance: number;
  /** ms */
  readonly supersededAt: number;
}

interface CommitEntry {
  readonly requestId: string;
  readonly payloadDigest: Uint8Array;
  readonly revision: number;
}

/** Everything a Space consists of. The last three belong to one domain. */
export interface Entries {
  readonly nodes: NodeEntry;
  readonly looseEdges: LooseEdgeEntry;
  readonly uploads: UploadEntry;
  readonly domains: DomainEntry;
  readonly balances: BalanceEntry;
  readonly history: HistoryEntry;
  readonly commits: CommitEntry;
}

export type EntryKind = keyof Entries;

export interface PageRequest<K extends EntryKind> {
  readonly space: Space;
  readonly kind: K;
  /** of balances, history and commits; '' for the others */
  readonly domain: string;
  /** the key (entry-keys.ts) after which the page begins */
  readonly after: string | undefined;
  readonly limit: number;
}

/** Rows of one Space that are written together; of `domain` those that belong to one. */
export interface Batch {
  readonly space: Space;
  readonly parts: readonly BatchPart[];
}

export type BatchPart = { [K in EntryKind]: Part<K> }[EntryKind];

export interface Part<K extends EntryKind> {
  readonly kind: K;
  readonly domain: string;
  readonly entries: readonly Entries[K][];
}

/** What a deployment holds, by its counters: for progress, so cheap rather than exact. */
export interface Totals {
  readonly spaces: number;
  readonly nodes: number;
  /** canonical bytes */
  readonly bytes: number;
}

/**
 * Values kept with the rows. `epoch`: of a source, goes with the next start of a server, so that a source that was served
 * meanwhile is noticed. `unfinished`: of a target, how far the copy has come; no server opens one. `finished`: of which
 * epoch the whole copy is; goes with the next start of a server.
 */
export type MarkName = 'epoch' | 'unfinished' | 'finished';

export interface ListedSpace {
  readonly space: Space;
  /** names this place in the reader's own order */
  readonly position: string;
}

export interface DeploymentReader {
  findMark(name: MarkName): Promise<string | undefined>;
  /** Durable when it resolves. */
  setMark(name: MarkName, value: string): Promise<void>;
  readTotals(): Promise<Totals>;
  /** In an order that is always the same. */
  listSpaces(after: string | undefined, limit: number): Promise<readonly ListedSpace[]>;
  /** In key order: hashes, domains and request ids by their bytes. Fewer than `limit` only at the end. */
  readPage<K extends EntryKind>(page: PageRequest<K>): Promise<readonly Entries[K][]>;
  readCounters(space: Space): Promise<SpaceCounters>;
}

export interface DeploymentWriter extends DeploymentReader {
  removeMark(name: MarkName): Promise<void>;
  /** Whether there is nothing that a copy could run into: no Space. */
  isEmpty(): Promise<boolean>;
  /**
   * One durable unit: the rows of the batch, the counters that follow from them, the Space itself, and the mark
   * `unfinished`. Nothing of it stays when it throws, unless the outcome is unknown: then the mark tells.
   */
  write(batch: Batch, unfinished: string): Promise<void>;
}

/** Who takes the bytes. */
export interface ContentIntake {
  /** as core/ports.ts ContentUploads: whether clients PUT to the store itself, so that uploads hold no evidence */
  readonly uploads: 'server' | 'direct';
  /**
   * Takes canonical bytes under a generation's write-once key, hashing them on the way; an object that is there already and
   * is right counts as taken. `open` may be called again for another try; what its stream rejects with comes back unchanged.
   */
  take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>): Promise<TakenContent>;
  /** Whether the object is there as its record has it. Reads no bytes. */
  isThere(object: StoredObject): Promise<boolean>;
}

export interface IntakeTarget {
  readonly space: Space;
  readonly generation: Generation;
  readonly hash: Hash;
  /** bytes */
  readonly canonicalSize: number;
}

export type TakenContent =
  | {
      readonly isRight: true;
      readonly integrity: Uint8Array;
      /** there when the bytes are to be a row */
      readonly inlineBytes: Uint8Array | undefined;
      /** Call once the rows that speak of it are durable, or will never be. */
      release(): Promise<void>;
    }
  /** the bytes do not have the hash; nothing is kept */
  | { readonly isRight: false };
