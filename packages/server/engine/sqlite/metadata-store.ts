/** core/ports.ts MetadataStore on SQLite: writes through group commit, reads on a connection of their own. */

import type { Database } from 'bun:sqlite';
import { type Hash, SECOND_MS } from '@holdfast/protocol';
import type { Awaitable } from '../../core/awaitable.ts';
import type { PageDamage, RowDamage, RowLook, SpaceSnapshot } from '../../core/inspection-ports.ts';
import { nameSpace } from '../../core/invariant.ts';
import type { ContentRow, Generation, NodeRow, Space, SpaceCounters, UploadRow } from '../../core/model.ts';
import type { LeaseWindow } from '../../core/node-row.ts';
import type { Clock, MetadataStore, TransactionBody } from '../../core/ports.ts';
import type { AppTotals, SpaceHoldings } from '../../core/tenancy-ports.ts';
import type { Maintained, Pages, Settlements, SweepCutoffs } from '../../core/upkeep-ports.ts';
import { assertNote } from '../../core/upkeep-ports.ts';
import { FSYNC_DURATION, GROUP_COMMIT_SIZE, SQL_DURATION } from '../../metrics/server-metrics.ts';
import { guardNow } from '../local-failure.ts';
import { type BalancePageRequest, readBalancePage } from '../rows/balance-page.ts';
import { assertBalancesThere, readBalanceStep } from './balance-page.ts';
import { openReader, READER_CACHE_BYTES } from './database.ts';
import { findStoreValue } from './ledger-rows.ts';
import { NodeCache } from './node-cache.ts';
import { DiskReads, NodeReads } from './node-reads.ts';
import { openSound } from './open-sound.ts';
import { type PageSources, SqlitePackReads, type SqlitePages } from './packs/pack-reads.ts';
import { findPageDamage } from './page-check.ts';
import { isFinished, makePages } from './pages.ts';
import { hexToBytes, uploadFromSql } from './rows.ts';
import { ScrubReads } from './scrub-reads.ts';
import { NO_COUNTERS, readAppTotals, readCountersOf, readHoldingsOf } from './space-counters.ts';
import { findSpaceOf, SpaceDirectory } from './space-directory.ts';
import { inspectSpace } from './space-snapshot.ts';
import { endReading, finalize, NO_SPACE, prepareReads, type ReadStatements } from './statements.ts';
import { checkRows } from './sums/check-rows.ts';
import { findLostNames, lookForLostNames } from './sums/lost-names.ts';
import {
  LocalRowWriter,
  type RowWriter,
  type RowWriterEvents,
  type RowWriterSettings,
} from './writer/row-writer.ts';
import { ThreadRowWriter } from './writer/thread-row-writer.ts';

const COMMIT_DURATION = FSYNC_DURATION.with({ kind: 'database' });

interface MetadataStoreOptions extends Omit<RowWriterSettings, 'lastCommit'> {
  readonly clock: Clock;
  /** called for a commit of unknown outcome or a broken invariant: the process has to end */
  readonly onFatal: (error: Error) => void;
  /** Writes go to a thread of their own, and only named transactions run. Its clock goes by `timeOrigin`, as `clock` has to. */
  readonly hasThread?: boolean;
}

export class SqliteMetadataStore implements MetadataStore {
  // Larger nodes get a file of their own.
  readonly inlineBytesMax = 32 * 1024;
  readonly #reader: Database;
  readonly #reads: ReadStatements;
  readonly #disk: DiskReads;
  readonly #nodes: NodeReads;
  readonly #spaces: SpaceDirectory;
  readonly #pages: SqlitePages;
  readonly packs: SqlitePackReads;
  readonly #writer: RowWriter;
  readonly #clock: Clock;
  readonly #path: string;

  /** @throws EngineRefused, DatabaseDamaged */
  constructor({ clock, onFatal, hasThread = false, ...writing }: MetadataStoreOptions) {
    const { path, isShared } = writing;
    this.#clock = clock;
    this.#path = path;
    const first = openSound(path);
    try {
      this.#reader = openReader(path, READER_CACHE_BYTES);
      const lostNames = findLostNames(this.#reader);
      this.#spaces = new SpaceDirectory(lostNames, { look: () => lookForLostNames(this.#reader) });
      this.#disk = new DiskReads(path, isShared);
      this.#reads = prepareReads(this.#reader);
      const lastCommit = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
      const cache = isShared ? undefined : new NodeCache();
      const events: RowWriterEvents = {
        onCommitted: (committed) => {
          this.#disk.endTurn();
          cache?.apply(committed);
          GROUP_COMMIT_SIZE.observe(committed.bodies);
          COMMIT_DURATION.observe(committed.commitMs / SECOND_MS);
        },
        onFatal,
      };
      const settings: RowWriterSettings = { ...writing, lastCommit, lostNames };
      this.#writer = hasThread
        ? new ThreadRowWriter(settings, events)
        : new LocalRowWriter(settings, clock, events);
      this.#nodes = new NodeReads({
        sql: this.#reads,
        disk: this.#disk,
        cache,
        lastCommit: () => Number(Atomics.load(lastCommit, 0)),
      });
      const sources: PageSources = {
        sql: this.#reads,
        read: <T>(work: () => T): T => this.#read(work),
        readAtOneInstant: <T>(work: () => T): T => this.#readAtOneInstant(work),
        idOf: (space: Space): number => this.#findSpaceId(space) ?? NO_SPACE,
        findSpace: (id: number) => findSpaceOf(this.#reads.findSpaceById.get(id)),
      };
      this.packs = new SqlitePackReads(sources);
      const scrub = new ScrubReads(this.#disk, this.#reads, sources.findSpace);
      this.#pages = makePages(sources, clock, scrub);
    } finally {
      first.close();
    }
  }

  transact<T, I = undefined>(space: Space, body: TransactionBody<T, I>, input?: I): Promise<T> {
    return timed(space, () => this.#writer.transact(space, body, input as I));
  }

  /** The committed row decides whether to ask the writer, which decides again. */
  renewReadyLease(space: Space, hash: Hash, durationMs: number): Awaitable<LeaseWindow | undefined> {
    if (this.findNode(space, hash)?.state !== 'ready') return undefined;
    return timed(space, () => this.#writer.renewReady(space, hash, durationMs));
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

  /** Reads from one commit, because beginning and ending a read for each statement costs more than the statement. */
  findNodesWithContent(space: Space, hashes: readonly Hash[]) {
    return this.#readAtOneInstant(() => {
      const id = this.#findSpaceId(space);
      if (id === undefined) return hashes.map(() => undefined);
      return this.#nodes.findNodesAndContent(id, hashes);
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
    return this.#readAtOneInstant(() => {
      const id = this.#findSpaceId(space);
      return id === undefined ? NO_COUNTERS : readCountersOf(this.#reads, id, this.#clock.now());
    });
  }

  readAppTotals(appId: string): AppTotals {
    return this.#readAtOneInstant(() => readAppTotals(this.#reads, appId));
  }

  readHoldings(space: Space): SpaceHoldings {
    return this.#read(() => readHoldingsOf(this.#reads, this.#findSpaceId(space) ?? NO_SPACE));
  }

  findBalancesAt(space: Space, domain: string, page: BalancePageRequest) {
    const reads = { sql: this.#reads, spaces: this.#spaces };
    const idOf = (): number => this.#findSpaceId(space) ?? NO_SPACE;
    return readBalancePage(
      {
        readStep: (step, rowsMax) =>
          this.#readAtOneInstant(() => readBalanceStep(reads, idOf(), domain, step, rowsMax)),
        assertAllThere: () => this.#readAtOneInstant(() => assertBalancesThere(this.#reads, idOf(), domain)),
      },
      page,
    );
  }

  async inspect<T>(space: Space, work: (snapshot: SpaceSnapshot) => Promise<T>): Promise<T> {
    return inspectSpace(this.#path, space, this.#clock.now(), work);
  }

  findRowDamage(look: RowLook): Promise<readonly RowDamage[]> {
    return checkRows(this.#path, look);
  }

  findPageDamage(look: RowLook): Promise<readonly PageDamage[]> {
    return findPageDamage(this.#path, look);
  }

  page<K extends keyof Pages>(kind: K, wanted: Pages[K]['wanted']): Pages[K]['page'] {
    return this.#read(() => this.#pages[kind](wanted));
  }

  async settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void> {
    if (typeof rows === 'object' && 'name' in rows) assertNote(rows);
    return this.#writer.settle(kind, rows);
  }

  maintain(cutoffs: SweepCutoffs): Promise<Maintained> {
    return this.#writer.maintain(cutoffs);
  }

  rest(): void {
    // A store that is closing empties its log anyway.
    this.#writer.emptyLog().catch(() => undefined);
  }

  isFinished(generation: Generation): boolean {
    return this.#read(() => isFinished(this.#reads, generation));
  }

  findStoreValue(name: string): string | undefined {
    return this.#read(() => findStoreValue(this.#reads, name));
  }

  /** Resolves with the value that is stored: the first one inserted. */
  insertStoreValue(name: string, value: string): Promise<string> {
    return this.#writer.insertStoreValue(name, value);
  }

  async removeStoreValue(name: string): Promise<void> {
    if (this.findStoreValue(name) !== undefined) await this.#writer.removeStoreValue(name);
  }

  async close(): Promise<void> {
    await this.#writer.drain();
    finalize(this.#reads);
    this.#reader.close(true);
    this.#disk.close();
    // The writer closes last: closing the only connection that may write copies the log back into the database.
    await this.#writer.close();
  }

  #findSpaceId(space: Space): number | undefined {
    const known = this.#spaces.find(space);
    if (known !== undefined) return known;
    const row = this.#reads.findSpaceId.get(space.appId, space.spaceId);
    const id = this.#spaces.idOf(space, row);
    if (id !== undefined) this.#spaces.remember(space, id);
    return id;
  }

  #read<T>(read: () => T): T {
    return guardNow('reading', read);
  }

  /** Several statements that must see the same commit. */
  #readAtOneInstant<T>(read: () => T): T {
    return this.#read(() => {
      this.#reads.beginReading.run();
      try {
        return read();
      } finally {
        endReading(this.#reader, this.#reads);
      }
    });
  }
}

const SQL_SECONDS = SQL_DURATION.with({ engine: 'sqlite' });

/** In one step, because renewals come in great numbers. */
function timed<T>(space: Space, ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const observe = (): void => SQL_SECONDS.observe((performance.now() - startedAt) / SECOND_MS);
  return ask().then(
    (value) => {
      observe();
      return value;
    },
    (error: unknown) => {
      observe();
      throw nameSpace(error, space);
    },
  );
}
