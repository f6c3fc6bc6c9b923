/** What the rules need from the world; all engines of a port pass one suite. Methods throw only for failure; absence is `undefined`. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { KeptCounters, SpaceInspection } from './inspection-ports.ts';
import type {
  ContentRow,
  DiscardRow,
  Generation,
  NodeRow,
  PackPlace,
  RootRefBalance,
  RootRefCommit,
  Space,
  SpaceCounters,
  UploadEvidence,
  UploadRow,
} from './model.ts';
import type { LeaseWindow } from './node-row.ts';
import type { PackRow } from './pack-model.ts';
import type { PackReads, PackStore, PackVerbs, SweptPack } from './pack-ports.ts';
import type { Stored } from './quotas.ts';
import type { PurgeVerbs, SpaceHoldings, TenantReads } from './tenancy-ports.ts';
import type { FindKnown, NodeMending, Upkeep, WalkKeeper } from './upkeep-ports.ts';
import type { ContentUploads, NodeLimits } from './upload-ports.ts';

/**
 * Rows. `transact` runs `body` in one serializable unit of one Space and resolves only when its effects are durable;
 * if `body` throws, none of its effects stay and the promise rejects with that error. An engine may run `body` again from the
 * start, so it changes nothing outside `tx`, and it awaits nothing but `tx` (no I/O in a transaction).
 *
 * An engine may run `body` in another thread. There only the transactions of core/transactions.ts are known, so each of them
 * decides by `tx` and `input` alone, and both `input` and what it returns are plain data that can be copied.
 * The read verbs see only committed state, durable or about to be, and never wait for a writer.
 */
export interface MetadataStore extends TenantReads, SpaceInspection, Upkeep {
  readonly packs: PackReads;
  /** The largest canonical node, bytes, that may be kept as a row as content with inlineBytes; 0 = never. */
  readonly inlineBytesMax: number;
  /** The instant by which leases are judged, ms: the store's own clock where processes share it, because theirs may differ. */
  readClock(): Awaitable<number>;
  /** Optional fast path: renews a ready row without a transaction. Undefined: a transaction finds out; most likely the row is not ready. */
  renewReadyLease?(space: Space, hash: Hash, durationMs: number): Awaitable<LeaseWindow | undefined>;
  /** `reads`: a hint of what a commit of root refs reads. An engine may run several such bodies in one unit, each with its outcome. */
  transact<T, I = undefined>(
    space: Space,
    body: TransactionBody<T, I>,
    input?: I,
    reads?: RootRefReads,
  ): Promise<T>;
  findNode(space: Space, hash: Hash): Awaitable<NodeRow | undefined>;
  /** The node and the content it points at, read at one instant. */
  findNodeWithContent(
    space: Space,
    hash: Hash,
  ): Awaitable<{ readonly node: NodeRow; readonly content: ContentRow | undefined } | undefined>;
  /** Aligned with `hashes`; committed rows, each node with the content that it points at. */
  findNodesWithContent(
    space: Space,
    hashes: readonly Hash[],
  ): Awaitable<readonly ({ readonly node: NodeRow; readonly content: ContentRow | undefined } | undefined)[]>;
  findUpload(space: Space, hash: Hash): Awaitable<UploadRow | undefined>;
  /** Optional: the upload of a hash of which the engine expects one. Undefined if it expects none, or if there is none. */
  findExpectedUpload?(space: Space, hash: Hash): Awaitable<UploadRow | undefined>;
  /** The counters as they are; leases are judged at the instant of the read, by `readClock`'s clock. */
  readCounters(space: Space): Awaitable<SpaceCounters>;
  /** Balances of `domain` as of `revision`, hash order, hash > after. `undefined` when that history is gone. */
  findBalancesAt(
    space: Space,
    domain: string,
    page: { readonly revision: number | 'current'; readonly after: Hash | undefined; readonly limit: number },
  ): Awaitable<BalancesAt | undefined>;
  /** Much was written, and no more is on its way: where a log takes room, this is the time to empty it. Nobody waits for that. */
  rest?(): void;
  close(): Promise<void>;
}

export interface BalancesAt {
  readonly revision: number;
  readonly items: readonly RootRefBalance[];
  /** of core/root-ref-walks.ts, in the transaction that read the revision */
  readonly walkedUntil: number;
}

export type TransactionBody<T, I> = (tx: SpaceTransaction, input: I) => Awaitable<T>;

export interface RootRefReads {
  readonly domain: string;
  readonly requestId: string;
  readonly hashes: readonly Hash[];
}

/** The rows of a hash that had none, and no loose edges. */
export interface PublishedRow {
  readonly node: NodeRow;
  readonly content: ContentRow;
}

/** Rows that `insert` makes, by kind. Of packs: with no live record. */
export type NewRow =
  | readonly ['node', row: NodeRow]
  | readonly ['upload', row: UploadRow]
  | readonly ['content', row: ContentRow]
  | readonly ['published', rows: readonly PublishedRow[]]
  | readonly ['pack', row: PackRow]
  /** the object of a closed generation is to be deleted from the content store */
  | readonly ['discard', row: DiscardRow];

export type RowChange =
  | readonly ['node', before: NodeRow, after: NodeRow]
  | readonly ['upload', before: UploadRow, after: UploadRow]
  | readonly ['pack', before: PackRow, after: PackRow];

/** Rows that `delete` takes: as read in this transaction, or by their generation. */
export type OldRow =
  | readonly ['node', before: NodeRow]
  | readonly ['upload', before: UploadRow]
  | readonly ['pack', before: PackRow]
  | readonly ['content' | 'discard', generation: Generation];

/** What is due, by kind. */
export interface DueRows {
  /** eligible rows (core/node-row.ts) whose lease ended, oldest expiry first, then hash */
  readonly candidates: NodeRow;
  /** claimed rows whose hold ended, ordered by its end, then by hash */
  readonly claimed: NodeRow;
  /** waiting rows touched then, the longest untouched first */
  readonly waiting: NodeRow;
  /** uploads whose URL ended and that were touched then */
  readonly uploads: UploadRow;
  readonly discards: DiscardRow;
  /**
   * Without order: packs that are not judged, with max(touchedAt, urlExpiresAt) then; judged, not discarded and without a live record;
   * judged, discarded, without a live record, and touched then.
   */
  readonly packs: SweptPack;
}

/** Row verbs in one transaction of one Space. Reads see its own writes. The engine keeps counters true (rules: core/usage-delta.ts). */
export interface SpaceTransaction {
  /** ms; the instant of this transaction by the store's clock */
  readonly now: number;

  findNode(hash: Hash): Awaitable<NodeRow | undefined>;
  /** Aligned with `hashes`; locks rows in hash order where the engine locks rows. */
  findNodes(hashes: readonly Hash[]): Awaitable<readonly (NodeRow | undefined)[]>;

  /** A discard replaces its earlier record. Throws for content whose generation has some already: write-once. */
  insert(...row: NewRow): Awaitable<void>;
  /** `before` is the row as read in this transaction. */
  update(...change: RowChange): Awaitable<void>;
  /** The verdicts of a pack go with it. */
  delete(...row: OldRow): Awaitable<void>;
  /** Rows whose instant is `atOrBefore` or earlier (candidates: now if undefined). A store may pass over candidates before `from`. */
  due<K extends keyof DueRows>(
    kind: K,
    atOrBefore: number | undefined,
    limit: number,
    from?: number,
  ): Awaitable<readonly DueRows[K][]>;

  /** Edges of parents to hashes without a row, aligned with `hashes`. Asked all at once, so that locks are taken in hash order. */
  findLooseEdges(hashes: readonly Hash[]): Awaitable<readonly number[]>;
  /** Sets the count; 0 removes the record. */
  setLooseEdges(hash: Hash, count: number): Awaitable<void>;

  findUpload(hash: Hash): Awaitable<UploadRow | undefined>;
  /** What the Space stores and reserves, exact: others wait for the end. Ask when all rows are read: a waiter may hold one needed here. */
  lockStored(): Awaitable<Stored>;
  /** The same for what the Space holds beside that, also by this transaction. */
  lockHoldings(): Awaitable<SpaceHoldings>;
  /** How many upload rows, and packs that are not judged, have urlExpiresAt > now, counted no further than `atMost`. */
  countActiveUploads(atMost: number): Awaitable<number>;

  findContent(generation: Generation): Awaitable<ContentRow | undefined>;

  readonly purging: PurgeVerbs;
  readonly mending: NodeMending;
  readonly packs: PackVerbs;

  /** Corrects the counters of the Space by what a recount of its rows found them to be off. @throws CounterBroken below 0 */
  correctCounters(by: KeptCounters): Awaitable<void>;

  findRootRefCommit(domain: string, requestId: string): Awaitable<RootRefCommit | undefined>;
  /** The domain's latest revision; 0 when it has none. */
  findRevision(domain: string): Awaitable<number>;
  /** Aligned with `hashes`; 0 when absent. */
  findBalances(domain: string, hashes: readonly Hash[]): Awaitable<readonly number[]>;
  /** Commits keep history from now on for a while (core/root-ref-walks.ts). */
  noteWalk(domain: string): Awaitable<void>;
  /** Records the commit and makes its revision the latest; writes the new balances, and the old as history if a walk may need them. */
  insertRootRefCommit(
    domain: string,
    commit: RootRefCommit,
    changes: readonly { readonly hash: Hash; readonly before: number; readonly after: number }[],
  ): Awaitable<void>;
}

/** Bytes under write-once keys: a complete object never changes, and a deleted key stays deleted. Deleting an absent key succeeds. */
export interface ContentStore {
  /** `server`: through our own upload target (`receive`). `direct`: a client PUTs to the store, with a URL from `signUpload`. */
  readonly upload: ContentUploads;
  readonly packs: PackStore;
  /** whether `read` of an object outside of packs puts its bytes into the memory that it is given, if they fit */
  readonly fillsScratch: boolean;
  /** ms by which the store's own clock is ahead of this process's, half a minute old at most; undefined: it does not say now */
  readClockSkew?(): Promise<number | undefined>;
  /** Looks for the complete object of a generation and validates it against `hash` in bounded memory. */
  inspect(space: Space, generation: Generation, hash: Hash, limits: NodeLimits): Promise<InspectedObject>;
  /** Proven bytes [start, end), up to `CONTENT_PIECE_BYTES`. Damage is ContentDamaged, absence in a healthy store ContentLost. */
  read(object: StoredObject, start: number, end: number, aids?: ReadAids): Promise<Uint8Array>;
  /** What `read` would give, if this store has it at once. `undefined`: ask `read`, which also tells what is wrong. */
  findNow?(object: StoredObject, start: number, end: number): Uint8Array | undefined;
  /** Names the stored bytes as they are now, without reading them: changes whenever they may have changed. Same errors as `read`. */
  getVersion(object: StoredObject): Promise<string>;
  /** Proves what `read` of [start, end), however large, would give, and gives nothing. Same errors as `read`. */
  prove(object: StoredObject, start: number, end: number): Promise<void>;
  /** Reads all of the object: digest, length, integrity. Same errors as `read`. */
  verify(object: StoredObject, hash: Hash): Promise<void>;
  /** Proves inline bytes by their integrity record; throws ContentDamaged. */
  verifyInline(content: ContentRow): void;
  /**
   * Deletes many objects. One that cannot be deleted does not hold up the others: `failure` says why one was not, `deleted` are
   * those that are certainly gone. An engine may stop early when its store is away. Called only for keys of claimed or closed
   * generations, because a delete may land late.
   */
  delete(space: Space, generations: readonly Generation[]): Promise<DeletedObjects>;
  /** Removes leftovers of uploads and strays, bounded work per call. `now` by the metadata store's clock, ms. */
  sweep(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void>;
  /** Only where the bytes can outlive the rows (core/store-epoch.ts). */
  readonly epoch?: StoredNumber;
  /** when a backup of the bytes last succeeded, ms; only where it is kept with them */
  readonly lastBackup?: Pick<StoredNumber, 'read'>;
  close(): Promise<void>;
}

export interface StoredNumber {
  /** undefined: none was ever written */
  read(): Promise<number | undefined>;
  write(number: number): Promise<void>;
}

export interface DeletedObjects {
  readonly deleted: ReadonlySet<Generation>;
  readonly failure: unknown;
}

export type InspectedObject =
  | { readonly found: false }
  | { readonly found: true; readonly evidence: UploadEvidence };

export interface StoredObject {
  readonly space: Space;
  readonly generation: Generation;
  readonly canonicalSize: number;
  readonly integrity: Uint8Array;
  /** set: the bytes are that record, and `integrity` is of its stored bytes */
  readonly packed?: PackPlace | undefined;
}

/** Content is read in pieces of this size: a few of them, of one object, may be in memory at once. */
export const CONTENT_PIECE_BYTES = 2 * 1024 * 1024;

/** Makes a read cheaper, or ends it early. */
export interface ReadAids {
  /** CONTENT_PIECE_BYTES of memory that the caller uses again: the result may lie there */
  readonly scratch?: Uint8Array;
  /** aborts when no caller waits any more */
  readonly signal?: AbortSignal;
}

/** `upload-holder`: names to whom an upload URL was given, without saying it */
export type SigningPurpose = 'upload-url' | 'upload-holder' | 'cursor';

/** Signs and checks what the server hands out: upload URLs and cursors. Keys are kept with the data. */
export interface Signer {
  /** 32 bytes over purpose and message */
  sign(purpose: SigningPurpose, message: string): Uint8Array;
  verify(purpose: SigningPurpose, message: string, signature: Uint8Array): boolean;
}

export interface Clock {
  /** ms since the epoch */
  now(): number;
  /** ms since some instant, by a clock that nobody can set; left out: the machine's */
  elapsed?(): number;
}

export interface Randomness {
  /** `count` unpredictable bytes */
  bytes(count: number): Uint8Array;
}
