/**
 * Committed node rows in memory. They stay right because only this process writes; with several processes on one folder there is
 * no such cache. It never holds content bytes: they are read from the disk each time, so that damage is found. The writer has one
 * cache and the reads have another, which learns of each commit.
 */
import type { Hash } from '@holdfast/protocol';
import type { NodeRow, PackPlace } from '../../core/model.ts';
import { isLeaseChangeOnly } from './row-changes.ts';

export interface CachedNode {
  readonly node: NodeRow;
  /** where the content of `node.generation` is, when that is known */
  readonly place: ContentPlace | undefined;
  /** the last commit that the read may have seen; 0 if nothing else writes */
  readonly readAt: number;
}

/** The row's key, and its lease from now on. */
type MovedLease = readonly [key: string, leaseStartedAt: number, leaseExpiresAt: number];

export interface ChangedRows {
  /** of rows where nothing but the lease changed */
  readonly leases: readonly MovedLease[];
  /** keys of all others */
  readonly others: readonly string[];
  /** records of packs have another place now, while the rows of their nodes are the same */
  readonly hasMoved: boolean;
}

/** Commits have rising numbers. */
export type Committed = ChangedRows & CommitCost & { readonly commit: number };

export interface CommitCost {
  /** transactions that it made durable together */
  readonly bodies: number;
  /** of the one statement that writes and syncs */
  readonly commitMs: number;
}

const NO_ROWS: ChangedRows = { leases: [], others: [], hasMoved: false };

/** A content row without its bytes. */
export interface ContentPlace {
  /** its integer id in the contents table */
  readonly id: number;
  /** as bytes */
  readonly generation: Uint8Array;
  readonly canonicalSize: number;
  readonly urlExpiresAt: number;
  readonly integrity: Uint8Array;
  readonly packed?: PackPlace | undefined;
  /** `NodeCache.moves` when it was read */
  readonly moves: number;
}

export function nodeKey(spaceId: number, hash: Hash): string {
  return `${spaceId}.${hash}`;
}

export class NodeCache {
  readonly #entries = new Map<string, CachedNode>();
  readonly #bytesMax: number;
  #bytes = 0;
  #moves = 0;

  constructor(bytesMax = 24 * 1024 * 1024) {
    this.#bytesMax = bytesMax;
  }

  /** Rises whenever records of packs were moved: places in packs that were read before may be wrong. */
  get moves(): number {
    return this.#moves;
  }

  find(key: string): CachedNode | undefined {
    return this.#entries.get(key);
  }

  /** Entries leave in the order in which they came. A row that is still in use comes back with its next read. */
  set(key: string, entry: CachedNode): void {
    const before = this.#entries.get(key);
    this.#entries.set(key, entry);
    this.#bytes += bytesOf(entry) - (before === undefined ? 0 : bytesOf(before));
    if (this.#bytes > this.#bytesMax) this.#shrink();
  }

  /** Many leave at once: finding the oldest entry costs more, the more have left one by one before. */
  #shrink(): void {
    const bytes = this.#bytesMax * (7 / 8);
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= bytes) break;
      this.delete(oldest);
    }
  }

  /** Applies a commit to the entries from before it. A row read while the commit was under way may include it, or not. */
  apply({ commit, leases, others, hasMoved }: Omit<Committed, keyof CommitCost>): void {
    if (hasMoved) this.#moves += 1;
    for (const key of others) this.delete(key);
    for (const [key, leaseStartedAt, leaseExpiresAt] of leases) {
      const entry = this.#entries.get(key);
      if (entry === undefined) continue;
      if (entry.readAt >= commit) this.delete(key);
      else this.set(key, { ...entry, node: { ...entry.node, leaseStartedAt, leaseExpiresAt } });
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= bytesOf(entry);
  }
}

function bytesOf({ node, place }: CachedNode): number {
  // Measured and rounded up: an entry takes 1,200 bytes beside its buffers, of which 400 are the answer kept of the row.
  return 1200 + node.refs.length + node.contentType.length + (place?.integrity.length ?? 0);
}

/** The node rows that one batch knows: its own writes first, then committed rows. */
export class BatchRows {
  readonly #cache: NodeCache | undefined;
  /** null: deleted; `undone`: written by a body that was undone, so only SQLite knows */
  readonly #written = new Map<string, NodeRow | null | 'undone'>();
  /** SQLite had no such rows before this batch */
  readonly #absent = new Set<string>();
  #hasMoved = false;

  constructor(cache: NodeCache | undefined) {
    this.#cache = cache;
  }

  /** null: there is no such row; undefined: ask SQLite, then `learn`. */
  find(key: string): NodeRow | null | undefined {
    const written = this.#written.get(key);
    if (written === undefined) return this.#absent.has(key) ? null : this.#cache?.find(key)?.node;
    return written === 'undone' ? undefined : written;
  }

  /** Remembers a row as SQLite has it. */
  learn(key: string, node: NodeRow): void {
    if (!this.#written.has(key)) this.#cache?.set(key, { node, place: undefined, readAt: 0 });
  }

  /** Nothing else writes while the batch runs. A row that the batch itself deleted may be held by others until they are told. */
  learnAbsent(key: string): undefined {
    if (!this.#written.has(key)) this.#absent.add(key);
  }

  noteMoved(): void {
    this.#hasMoved = true;
  }

  write(key: string, node: NodeRow | null): void {
    this.#written.set(key, node);
  }

  /** A row that SQLite does not have. */
  insert(key: string, node: NodeRow): void {
    this.learnAbsent(key);
    this.#written.set(key, node);
  }

  undo(key: string): void {
    this.#written.set(key, 'undone');
  }

  /** Call after the commit. Returns the changed rows, for others that hold rows too. */
  publish(): ChangedRows {
    const cache = this.#cache;
    if (cache === undefined) return NO_ROWS;
    const leases: MovedLease[] = [];
    const others: string[] = [];
    for (const [key, node] of this.#written) {
      const known = cache.find(key)?.node;
      if (node === null || node === 'undone') {
        cache.delete(key);
        others.push(key);
        continue;
      }
      cache.set(key, { node, place: undefined, readAt: 0 });
      const isLease = known !== undefined && isLeaseChangeOnly(known, node);
      if (isLease) leases.push([key, node.leaseStartedAt, node.leaseExpiresAt]);
      // Nobody else can hold a row that was not there.
      else if (!this.#absent.has(key)) others.push(key);
    }
    return { leases, others, hasMoved: this.#hasMoved };
  }
}
