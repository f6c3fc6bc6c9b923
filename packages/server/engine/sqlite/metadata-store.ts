/** core/ports.ts MetadataStore on SQLite: writes through group commit, reads on a connection of their own. */
import type { Database } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import { namingSpace } from '../../core/invariant.ts';
import type {
  ContentRow,
  Generation,
  NodeRow,
  ObjectKey,
  RootRefBalance,
  Space,
  SpaceCounters,
  UploadRow,
} from '../../core/model.ts';
import type {
  Awaitable,
  Clock,
  MetadataStore,
  RottenSpace,
  ScrubItem,
  ScrubPosition,
  SweepCutoffs,
  TransactionBody,
} from '../../core/ports.ts';
import { isDamageMet, storageError } from '../local-failure.ts';
import { type BalancePageRequest, findBalanceStep } from './balance-page.ts';
import {
  assertTablesSound,
  assertWholePages,
  openReader,
  openWriter,
  READER_CACHE_BYTES,
  shortenBusyTimeout,
} from './database.ts';
import { DiskReads } from './disk-reads.ts';
import { GroupCommit } from './group-commit.ts';
import { moveWatermarks, pruneHistory } from './maintenance.ts';
import { migrate } from './migrations.ts';
import { NodeCache } from './node-cache.ts';
import { NodeReads } from './node-reads.ts';
import { findRottenSpaces } from './rotten-spaces.ts';
import { bytesToHex, hexToBytes, joinedContentFromSql, nodeFromSql, uploadFromSql } from './rows.ts';
import { ScrubWalk } from './scrub-walk.ts';
import { SpaceDirectory } from './space-directory.ts';
import { SqliteSpaceTransaction } from './space-transaction.ts';
import { finalize, prepareAll, prepareReads, type ReadStatements, type Statements } from './statements.ts';
import { SweepWalk } from './sweep-walk.ts';
import { WriteAheadLog } from './write-ahead-log.ts';
import type { WriteScope } from './write-scope.ts';

/** Larger nodes get a file of their own. */
const INLINE_BYTES_MAX = 32 * 1024;

/** What Spaces and domains are found by: without it all they hold is absent. */
const DIRECTORIES = ['spaces', 'domains'] as const;

const NO_COUNTERS: SpaceCounters = {
  nodeCount: 0,
  readyContentBytes: 0,
  readyStoredBytes: 0,
  waitingBytes: 0,
  notReadyNodeCount: 0,
  leasedNodeCount: 0,
};

interface MetadataStoreOptions {
  /** the database file */
  readonly path: string;
  readonly clock: Clock;
  /** a commit of unknown outcome or a broken invariant: the process is to end */
  readonly onFatal: (error: Error) => void;
  /** other processes write to the same file */
  readonly isShared: boolean;
  /** the database grows no further than this, as on a full disk; unlimited when left out */
  readonly databasePagesMax?: number;
  /** ms after which a commit that many share takes no further part */
  readonly batchMsMax?: number;
}

export class SqliteMetadataStore implements MetadataStore {
  readonly inlineBytesMax = INLINE_BYTES_MAX;
  readonly #writer: Database;
  readonly #reader: Database;
  readonly #writes: Statements;
  readonly #reads: ReadStatements;
  readonly #disk: DiskReads;
  readonly #nodes: NodeReads;
  readonly #commits: GroupCommit;
  readonly #spaces = new SpaceDirectory();
  readonly #watermarkWalk = { afterSpace: 0 };
  readonly #sweepWalk: SweepWalk;
  readonly #scrubWalk = new ScrubWalk();
  readonly #log: WriteAheadLog;
  readonly #clock: Clock;

  /** @throws EngineRefused, DatabaseDamaged */
  constructor({ path, clock, onFatal, isShared, databasePagesMax, batchMsMax }: MetadataStoreOptions) {
    this.#clock = clock;
    assertWholePages(path);
    this.#writer = openWriter(path, databasePagesMax);
    try {
      migrate(this.#writer, path);
      assertTablesSound(this.#writer, DIRECTORIES);
      shortenBusyTimeout(this.#writer);
      this.#writes = prepareAll(this.#writer);
      this.#reader = openReader(path, READER_CACHE_BYTES);
      this.#disk = new DiskReads(path, isShared);
    } catch (error) {
      this.#writer.close();
      throw error;
    }
    this.#reads = prepareReads(this.#reader);
    const cache = isShared ? undefined : new NodeCache();
    this.#nodes = new NodeReads({ sql: this.#reads, disk: this.#disk, cache });
    this.#sweepWalk = new SweepWalk(this.#reads);
    this.#log = new WriteAheadLog(this.#writer);
    this.#commits = new GroupCommit({
      database: this.#writer,
      sql: this.#writes,
      spaces: this.#spaces,
      cache,
      clock,
      onFatal,
      batchMsMax,
      beforeCommit: () => this.#disk.endTurn(),
    });
  }

  transact<T, I = undefined>(space: Space, body: TransactionBody<T, I>, input?: I): Promise<T> {
    const run = (scope: WriteScope): Awaitable<T> =>
      body(new SqliteSpaceTransaction(scope, space), input as I);
    return namingSpace(space, () => this.#commits.submit(run) as Promise<T>);
  }

  findNode(space: Space, hash: Hash): NodeRow | undefined {
    return this.#read(() => {
      const id = this.#findSpaceId(space);
      return id === undefined ? undefined : this.#nodes.findNode(id, hash);
    });
  }

  findNodeWithContent(
    space: Space,
    hash: Hash,
  ): { readonly node: NodeRow; readonly content: ContentRow | undefined } | undefined {
    return this.#read(() => {
      const id = this.#findSpaceId(space);
      return id === undefined ? undefined : this.#nodes.findNodeWithContent(id, hash);
    });
  }

  findUpload(space: Space, hash: Hash): UploadRow | undefined {
    return this.#read(() => {
      const id = this.#findSpaceId(space);
      if (id === undefined) return undefined;
      const row = this.#reads.findUpload.get(id, hexToBytes(hash));
      return row === null ? undefined : uploadFromSql(row, hash);
    });
  }

  readClock(): number {
    return this.#clock.now();
  }

  readCounters(space: Space): SpaceCounters {
    const now = this.#clock.now();
    return this.#readAtOneInstant(() => {
      const id = this.#findSpaceId(space);
      const row = id === undefined ? null : this.#reads.findCounters.get(id);
      if (id === undefined || row === null) return NO_COUNTERS;
      return {
        nodeCount: row.node_count as number,
        readyContentBytes: row.ready_content_bytes as number,
        readyStoredBytes: row.ready_stored_bytes as number,
        waitingBytes: row.waiting_bytes as number,
        notReadyNodeCount: row.not_ready_node_count as number,
        leasedNodeCount: this.#countLeases(
          id,
          row.leased_count as number,
          row.lease_watermark as number,
          now,
        ),
      };
    });
  }

  /** The counter holds the leases past the watermark; those between it and now have ended (or, after a step back, not). */
  #countLeases(id: number, counted: number, watermark: number, now: number): number {
    if (now >= watermark) return counted - this.#countLeasesBetween(id, watermark, now);
    return counted + this.#countLeasesBetween(id, now, watermark);
  }

  #countLeasesBetween(id: number, after: number, upTo: number): number {
    let count = 0;
    for (const collectable of [0, 1]) {
      const row = this.#reads.countLeasesBetween.get(id, collectable, after, upTo);
      count += (row?.count as number | undefined) ?? 0;
    }
    return count;
  }

  async findBalancesAt(space: Space, domain: string, page: BalancePageRequest) {
    const items: RootRefBalance[] = [];
    let { revision, after } = page;
    for (;;) {
      const rest = { revision, after, limit: page.limit - items.length };
      const step = this.#readAtOneInstant(() => {
        const id = this.#findSpaceId(space);
        if (id !== undefined) return findBalanceStep(this.#reads, id, domain, rest);
        const isEmpty = revision === 'current' || revision === 0;
        return isEmpty ? { revision: 0, items: [], resumeAfter: undefined } : undefined;
      });
      if (step === undefined) return undefined;
      items.push(...step.items);
      if (step.resumeAfter === undefined) return { revision: step.revision, items };
      revision = step.revision;
      after = step.resumeAfter;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  findSpacesToSweep(cutoffs: SweepCutoffs, limit: number): readonly Space[] {
    return this.#read(() => this.#sweepWalk.findSpaces(cutoffs, limit));
  }

  async maintain(cutoffs: SweepCutoffs): Promise<boolean> {
    const { isMoreLeft, broken } = await this.#commits.submit((scope) => {
      const watermarks = moveWatermarks(scope, this.#watermarkWalk, cutoffs.now);
      const isHistoryLeft = pruneHistory(scope, cutoffs);
      return { isMoreLeft: watermarks.isLeft || isHistoryLeft, broken: watermarks.broken };
    });
    this.#disk.endTurn();
    this.#log.emptyWhenIdle();
    if (broken !== undefined) throw broken;
    return isMoreLeft;
  }

  findNodesToScrub(
    after: ScrubPosition | undefined,
    limit: number,
  ): { items: readonly ScrubItem[]; next: ScrubPosition | undefined } {
    return this.#read(() => {
      try {
        const found = this.#readToScrub(this.#scrubWalk.from(after), limit);
        this.#scrubWalk.goOn();
        return found;
      } catch (error) {
        if (isDamageMet(error)) this.#scrubWalk.skip(after);
        throw error;
      }
    });
  }

  #readToScrub({ space, hash }: ReturnType<ScrubWalk['from']>, limit: number) {
    const rows = this.#disk.sql.findNodesToScrub.all(space, hexToBytes(hash), limit);
    const items: ScrubItem[] = [];
    for (const row of rows) {
      const id = row.space as number;
      items.push({
        space: this.#readSpace(id),
        node: nodeFromSql(row),
        content: joinedContentFromSql(row, id),
      });
    }
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { items, next: last && `${last.space}.${bytesToHex(last.hash as Uint8Array)}` };
  }

  findRottenSpaces(after: string | undefined, limit: number): readonly RottenSpace[] {
    return this.#read(() => findRottenSpaces(this.#reads, after, limit));
  }

  /** By generation alone: one database holds all Spaces, and no generation is given twice. */
  findKnownGenerations(keys: readonly Pick<ObjectKey, 'generation'>[]): ReadonlySet<Generation> {
    const { isUploadKnown, isContentKnown, isDiscardKnown } = this.#reads;
    return this.#read(() => {
      const known = new Set<Generation>();
      for (const { generation } of keys) {
        const key = hexToBytes(generation);
        const isKnown = [isUploadKnown, isContentKnown, isDiscardKnown].some((sql) => sql.get(key) !== null);
        if (isKnown) known.add(generation);
      }
      return known;
    });
  }

  /** Whether the PUT of this generation was ever recorded as complete: its object stands for something. */
  isFinished(generation: Generation): boolean {
    return this.#read(() => {
      const key = hexToBytes(generation);
      const verdict = this.#reads.isUploadKnown.get(key)?.verdict;
      return typeof verdict === 'number' || this.#reads.isContentKnown.get(key) !== null;
    });
  }

  /** A value that belongs to this data folder for ever. */
  findStoreValue(name: string): string | undefined {
    return this.#read(() => this.#reads.findStoreValue.get(name)?.value as string | undefined);
  }

  /** Resolves with the value that stands: the first one inserted. */
  insertStoreValue(name: string, value: string): Promise<string> {
    return this.#commits.submit((scope) => {
      const row = scope.find(scope.sql.findStoreValue, name);
      if (row !== undefined) return row.value as string;
      scope.writeOne('a store value is made once', scope.sql.insertStoreValue, name, value);
      return value;
    });
  }

  async removeStoreValue(name: string): Promise<void> {
    if (this.findStoreValue(name) === undefined) return;
    await this.#commits.submit((scope) => scope.write(scope.sql.deleteStoreValue, name));
  }

  async close(): Promise<void> {
    await this.#commits.close();
    finalize(this.#reads);
    this.#reader.close(true);
    this.#disk.close();
    // Last: closing the only connection that may write copies the log back into the database.
    finalize(this.#writes);
    this.#writer.close(true);
  }

  #findSpaceId(space: Space): number | undefined {
    const known = this.#spaces.find(space);
    if (known !== undefined) return known;
    const row = this.#reads.findSpaceId.get(space.appId, space.spaceId);
    if (row === null) return undefined;
    this.#spaces.remember(space, row.id as number);
    return row.id as number;
  }

  #readSpace(id: number): Space {
    const row = this.#reads.findSpaceById.get(id);
    if (row === null) throw new Error(`Space ${id} has nodes but no row`);
    return { appId: row.app_id as string, spaceId: row.space_id as string };
  }

  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  /** Several statements that must see the same commit. */
  #readAtOneInstant<T>(read: () => T): T {
    return this.#read(() => {
      this.#reads.beginReading.run();
      try {
        return read();
      } finally {
        this.#reads.endReading.run();
      }
    });
  }
}
