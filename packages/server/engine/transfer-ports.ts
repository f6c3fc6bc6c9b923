/**
 * The ports by which a whole deployment is copied. Rows travel as entries of the model's types, page by page in key order, the
 * same for every store of rows. Bytes travel once, from the source's ContentStore to the target's ContentIntake. As elsewhere,
 * absence is `undefined` and failure throws.
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
  /** present if the evidence of `row` is good */
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

/** The balance of a node in revisions [fromRevision, toRevision). */
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

/** All kinds of entries of a Space. The last three belong to one domain. */
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
  /** the key (`keyOf`) after which the page begins */
  readonly after: string | undefined;
  readonly limit: number;
}

/** Rows of one Space that are written together. `domain` is for the kinds that belong to one. */
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

/** The size of a deployment by its counters: cheap rather than exact, because it only shows progress. */
export interface Totals {
  readonly spaces: number;
  readonly nodes: number;
  /** canonical bytes */
  readonly bytes: number;
}

/**
 * Values kept with the rows. `epoch` marks a source; a server that starts removes it, so that a source that was served meanwhile
 * is noticed. `unfinished` marks a target and says how far the copy has come; no server opens such a target. `finished` names the
 * epoch of a complete copy; a server that starts removes it.
 */
export type MarkName = 'epoch' | 'unfinished' | 'finished';

export interface ListedSpace {
  readonly space: Space;
  /** names this place in the order of `listSpaces` */
  readonly position: string;
}

export interface DeploymentReader {
  findMark(name: MarkName): Promise<string | undefined>;
  /** Durable when it resolves. */
  setMark(name: MarkName, value: string): Promise<void>;
  readTotals(): Promise<Totals>;
  /** Tables that have a row which no Space or domain leads to: pages go past it. */
  findUnreached(): Promise<readonly string[]>;
  /** In an order that is always the same. */
  listSpaces(after: string | undefined, limit: number): Promise<readonly ListedSpace[]>;
  /** In key order: hashes, domains and request ids by their bytes. Fewer than `limit` only at the end. */
  readPage<K extends EntryKind>(page: PageRequest<K>): Promise<readonly Entries[K][]>;
  readCounters(space: Space): Promise<SpaceCounters>;
}

export interface DeploymentWriter extends DeploymentReader {
  removeMark(name: MarkName): Promise<void>;
  /** Whether there is no Space, so that a copy can begin. */
  isEmpty(): Promise<boolean>;
  /** Writes rows, counters, Space and mark as one durable unit. If it throws, nothing is written; if that is unknown, the mark tells. */
  write(batch: Batch, unfinished: string): Promise<void>;
}

/** Takes the bytes of a copy. */
export interface ContentIntake {
  /** as core/ports.ts ContentUploads; with `direct` uploads an unfinished upload holds no evidence */
  readonly uploads: 'server' | 'direct';
  /** Takes and hashes bytes under a write-once key; a correct object there counts. `open` may be called again. Its errors stay the same. */
  take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>): Promise<TakenContent>;
  /** Whether the object is there and matches its record. Reads no bytes. */
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
      /** present if the bytes are to be a row */
      readonly inlineBytes: Uint8Array | undefined;
      /** Call once the rows that name the object are durable, or when they will not be written. */
      release(): Promise<void>;
    }
  /** the bytes do not have the hash; nothing is kept */
  | { readonly isRight: false };

const KEYS: { readonly [K in EntryKind]: (entry: Entries[K]) => string } = {
  nodes: ({ row }) => row.hash,
  looseEdges: ({ hash }) => hash,
  uploads: ({ row }) => row.hash,
  domains: ({ domain }) => domain,
  balances: ({ hash }) => hash,
  history: ({ hash, fromRevision }) => `${hash}${fromRevision}`,
  commits: ({ requestId }) => requestId,
};

/** The key of each kind of entry as one text: source and target resume pages by it. Pure. */
export function keyOf<K extends EntryKind>(kind: K, entry: Entries[K]): string {
  return KEYS[kind](entry);
}

/** The two parts of a key of history; without a key, parts that come before all others. */
export function parseHistoryKey(key: string | undefined): {
  readonly hash: Hash;
  readonly fromRevision: number;
} {
  if (key === undefined) return { hash: '', fromRevision: 0 };
  return { hash: key.slice(0, 64), fromRevision: Number(key.slice(64)) };
}
