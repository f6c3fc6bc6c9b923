/** core/ports.ts MetadataStore on PostgreSQL, shared by any number of processes. */
import { randomInt } from 'node:crypto';
import { groupsOf, type Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../core/awaitable.ts';
import type { RowDamage, RowLook, SpaceSnapshot } from '../../core/inspection-ports.ts';
import { InvariantViolation, namingSpace } from '../../core/invariant.ts';
import type { NodeRow, Space, SpaceCounters, SpaceKey, UploadRow } from '../../core/model.ts';
import type { LeaseWindow } from '../../core/node-row.ts';
import type {
  Clock,
  MetadataStore,
  RootRefReads,
  SpaceTransaction,
  TransactionBody,
} from '../../core/ports.ts';
import type { AppTotals, SpaceHoldings } from '../../core/tenancy-ports.ts';
import type { Maintained, PageReads, Pages, Settlements, SweepCutoffs } from '../../core/upkeep-ports.ts';
import { type BalancePageRequest, readBalancePage } from '../rows/balance-page.ts';
import { CommitRecordWalk } from '../rows/commit-records.ts';
import { foldAppChanges, readAppTotals, readHoldings } from './app-totals.ts';
import { balanceReads } from './balance-page.ts';
import { commitRecordRows } from './commit-records.ts';
import { countersFromSql, sumSlots } from './counters.ts';
import { Maintenance } from './maintenance.ts';
import { PostgresPackReads } from './packs/pack-reads.ts';
import { makePages } from './pages.ts';
import { ReadyLeases } from './ready-leases.ts';
import { slotSum } from './row-sums.ts';
import { type FoundNode, foundNodeFromSql, hashesToSql, nodeFromSql, uploadFromSql } from './rows.ts';
import { SeenUploads } from './seen-uploads.ts';
import { SpaceKeys } from './space-names.ts';
import { inspectSpace } from './space-snapshot.ts';
import { SQL } from './statements.ts';
import { checkRows } from './sums/check-rows.ts';
import { SumFill } from './sums/fill-sums.ts';
import { type DomainStart, readDomainStart, SETTLING } from './tombstones.ts';
import { repeatWhereSafe, Transactions } from './transactions.ts';
import { UploadLimit } from './upload-limit.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { hexToBytea, type SqlRow, type SqlValue } from './wire/wire-messages.ts';

/** rows of usage_counters per Space: this many transactions can count at once without waiting for each other */
const SLOTS = 16;

interface OpenOptions {
  /** on a migrated database; the caller closes it */
  readonly pool: PostgresPool;
  /** called for a broken invariant: the process has to end */
  readonly onFatal: (error: Error) => void;
  /** Tests set it. If left out, the database's own clock is the clock of every process. */
  readonly clock?: Clock | undefined;
}

export class PostgresMetadataStore implements MetadataStore {
  /** All bytes go to the content store, because rows are copied to standbys and backups and are read through few connections. */
  readonly inlineBytesMax = 0;
  readonly #pool: PostgresPool;
  readonly #clock: Clock | undefined;
  readonly #onFatal: (error: Error) => void;
  readonly #keys = new SpaceKeys();
  readonly #seenUploads = new SeenUploads();
  readonly #transactions: Transactions;
  readonly #leases: ReadyLeases;
  readonly #maintenance: Maintenance;
  readonly #sumFill: SumFill;
  readonly #commitRecords: CommitRecordWalk<unknown>;
  readonly #pages: PageReads;
  readonly packs: PostgresPackReads;
  /** random, so that processes begin at different slots */
  readonly #firstSlot = randomInt(SLOTS);
  readonly #domainStart: DomainStart;

  static async open(options: OpenOptions): Promise<PostgresMetadataStore> {
    return new PostgresMetadataStore(options, await readDomainStart(options.pool));
  }

  private constructor({ pool, onFatal, clock }: OpenOptions, domainStart: DomainStart) {
    this.#domainStart = domainStart;
    this.#pool = pool;
    this.#clock = clock;
    this.#onFatal = onFatal;
    this.#transactions = new Transactions({
      pool,
      uploadLimit: new UploadLimit(),
      seenUploads: this.#seenUploads,
      keys: this.#keys,
      domainStart,
      slotOf: (connection) => this.#slotOf(connection),
    });
    this.#leases = new ReadyLeases((...batch) => this.#renewRows(...batch), pool.admissionMs);
    this.#maintenance = new Maintenance(pool);
    this.#sumFill = new SumFill(pool);
    this.#commitRecords = new CommitRecordWalk(commitRecordRows(pool));
    this.#pages = makePages(pool, this.#keys, () => this.#clockParameter);
    this.packs = new PostgresPackReads(pool, this.#keys);
  }

  readClock(): Awaitable<number> {
    if (this.#clock !== undefined) return this.#clock.now();
    return this.#read(SQL.readNow, [null]).then(([row]) => row?.now as number);
  }

  renewReadyLease(space: Space, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined> {
    const key = this.#keys.of(space);
    if (this.#seenUploads.has(key, hash)) return Promise.resolve(undefined);
    return this.#leases.renew(space, key, hash, durationMs);
  }

  #renewRows(
    space: Space,
    key: SpaceKey,
    hashes: readonly string[],
    durationsMs: readonly number[],
  ): Promise<readonly SqlRow[]> {
    return this.#guard(
      repeatWhereSafe('renewing leases', () =>
        this.#pool.lend(async (connection) => {
          const slot = this.#slotOf(connection);
          const parameters = [key, hashes, durationsMs, this.#clockParameter, slot, slotSum(key, slot)];
          return (await connection.query(SQL.renewReadyLeases, parameters)).rows;
        }, space),
      ),
    );
  }

  transact<T, I = undefined>(
    space: Space,
    body: TransactionBody<T, I>,
    input?: I,
    reads?: RootRefReads,
  ): Promise<T> {
    const run = (tx: SpaceTransaction): Awaitable<T> => body(tx, input as I);
    return namingSpace(space, () =>
      this.#guard(this.#transactions.run(space, () => this.#clockParameter, run, reads)),
    );
  }

  async findNode(space: Space, hash: Hash): Promise<NodeRow | undefined> {
    const [row] = await this.#read(SQL.findNode, [this.#keys.of(space), hexToBytea(hash)], space);
    return row && nodeFromSql(this.#keys.of(space), row);
  }

  async findNodeWithContent(space: Space, hash: Hash): Promise<FoundNode | undefined> {
    const key = this.#keys.of(space);
    const [row] = await this.#read(SQL.findNodeWithContent, [key, hexToBytea(hash)], space);
    return row && foundNodeFromSql(key, row);
  }

  async findNodesWithContent(
    space: Space,
    hashes: readonly Hash[],
  ): Promise<readonly (FoundNode | undefined)[]> {
    const found = new Map<Hash, FoundNode>();
    const key = this.#keys.of(space);
    // Each node may have 8 KiB of refs, and an answer is in memory whole.
    for (const some of groupsOf(hashes, 1_024)) {
      for (const row of await this.#read(SQL.findNodesWithContent, [key, hashesToSql(some)], space)) {
        const each = foundNodeFromSql(key, row);
        found.set(each.node.hash, each);
      }
    }
    return hashes.map((hash) => found.get(hash));
  }

  async findUpload(space: Space, hash: Hash): Promise<UploadRow | undefined> {
    const [row] = await this.#read(SQL.findUpload, [this.#keys.of(space), hexToBytea(hash)], space);
    return row && uploadFromSql(this.#keys.of(space), row);
  }

  async findExpectedUpload(space: Space, hash: Hash): Promise<UploadRow | undefined> {
    const key = this.#keys.of(space);
    if (!this.#seenUploads.has(key, hash)) return undefined;
    const upload = await this.findUpload(space, hash);
    this.#seenUploads.note(key, hash, upload !== undefined);
    return upload;
  }

  async readCounters(space: Space): Promise<SpaceCounters> {
    const key = this.#keys.of(space);
    const rows = await this.#read(SQL.readCounters, [key, this.#clockParameter], space);
    return countersFromSql(sumSlots(key, rows));
  }

  readAppTotals(appId: string): Promise<AppTotals> {
    return readAppTotals(this.#pool, appId);
  }

  readHoldings(space: Space): Promise<SpaceHoldings> {
    return readHoldings(this.#pool, this.#keys.of(space));
  }

  findBalancesAt(space: Space, domain: string, page: BalancePageRequest) {
    const reads = balanceReads(this.#pool, this.#keys.of(space), domain, this.#domainStart.revision, space);
    return readBalancePage(reads, page);
  }

  inspect<T>(space: Space, work: (snapshot: SpaceSnapshot) => Promise<T>): Promise<T> {
    const key = this.#keys.of(space);
    return this.#guard(
      this.#pool.lend((connection) => inspectSpace(connection, key, this.#clockParameter, work)),
    );
  }

  page<K extends keyof Pages>(kind: K, wanted: Pages[K]['wanted']): Awaitable<Pages[K]['page']> {
    return this.#pages[kind](wanted);
  }

  settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void> {
    return SETTLING[kind](this.#pool, rows, this.#domainStart);
  }

  async maintain(cutoffs: SweepCutoffs): Promise<Maintained> {
    // Leases that cannot be read keep no old history.
    const [commits, ...parts] = await Promise.allSettled([
      this.#guard(this.#commitRecords.step(cutoffs)),
      this.#guard(this.#sumFill.step()),
      this.#guard(this.#maintenance.endLeases(cutoffs.now, this.#firstSlot)),
      this.#guard(this.#maintenance.pruneHistory(cutoffs)),
      foldAppChanges(this.#pool),
    ]);
    for (const part of parts) if (part.status === 'rejected') throw part.reason;
    if (commits.status === 'rejected') throw commits.reason;
    const isLeft = parts.some((part) => part.status === 'fulfilled' && part.value);
    return { ...commits.value, moreToDo: isLeft || commits.value.moreToDo };
  }

  findRowDamage(look: RowLook): Promise<readonly RowDamage[]> {
    return checkRows(this.#pool, look);
  }

  /** Leaves the pool open, because it may serve other stores: the caller closes it. */
  async close(): Promise<void> {
    await this.#transactions.close();
  }

  /** null: the statement asks the database's clock */
  get #clockParameter(): number | null {
    return this.#clock?.now() ?? null;
  }

  async #read(statement: string, parameters: readonly SqlValue[], space?: Space): Promise<readonly SqlRow[]> {
    return (await this.#pool.read('reading', statement, parameters, space)).rows;
  }

  #slotOf(connection: PostgresConnection): number {
    return (this.#firstSlot + connection.number) % SLOTS;
  }

  async #guard<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof InvariantViolation) this.#onFatal(error);
      throw error;
    }
  }
}
