/**
 * One body's part of a batch: keeps or undoes its writes, and refuses to be used afterwards. Bodies that write and then fail are rare,
 * and a savepoint copies every page that its body changes. So a body has one only in a guarded batch; if it fails in another, the whole
 * transaction is rolled back and its other bodies run again in a guarded one.
 */
import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { InvariantViolation } from '../../core/invariant.ts';
import type { NodeRow } from '../../core/model.ts';
import type { PublishedRow } from '../../core/ports.ts';
import type { Stored } from '../../core/quotas.ts';
import { isDamage, StoreUnavailable } from '../../core/store-failure.ts';
import type { SpaceHoldings } from '../../core/tenancy-ports.ts';
import { totalUsage } from '../../core/usage-delta.ts';
import { guardNow, storageError } from '../local-failure.ts';
import { findAbsent } from './absent-nodes.ts';
import { DatabaseDamaged, letGoOfPages } from './database.ts';
import { type BatchRows, nodeKey } from './node-cache.ts';
import { readHoldingsOf } from './space-counters.ts';
import type { SpaceLedger } from './space-ledger.ts';
import { isRecordHidden, type SqlRow, type Statements } from './statements.ts';
import type { TableFaults } from './table-faults.ts';

const INDEX_DAMAGED =
  'reading failed: an index of the database is damaged: run holdfast check --repair, and check the disk';

type Prepared = Statement<SqlRow, SQLQueryBindings[]>;

/** The state that the bodies of one SQLite transaction share. */
export interface Batch {
  readonly ledger: SpaceLedger;
  readonly rows: BatchRows;
  readonly activeUploads: ActiveUploads;
  readonly faults: TableFaults;
  /** by Space, whether it may have edges to hashes without a row; nothing else writes while the batch runs */
  readonly withLooseEdges: Map<number, boolean>;
  /** each body has a savepoint, so that it can be undone alone */
  readonly isGuarded: boolean;
}

export class WriteScope {
  readonly sql: Statements;
  readonly ledger: SpaceLedger;
  readonly rows: BatchRows;
  readonly activeUploads: ActiveUploads;
  readonly withLooseEdges: Map<number, boolean>;
  /** ms; the instant of this transaction */
  readonly now: number;
  readonly #database: Database;
  readonly #undo: (() => void)[] = [];
  readonly #last: (() => void)[] = [];
  readonly #batch: Batch;
  #isSpoiling = false;
  #state: 'reading' | 'bare' | 'guarded' | 'ended' = 'reading';

  constructor(sql: Statements, database: Database, batch: Batch, now: number) {
    this.sql = sql;
    this.#database = database;
    this.#batch = batch;
    this.ledger = batch.ledger;
    this.rows = batch.rows;
    this.activeUploads = batch.activeUploads;
    this.withLooseEdges = batch.withLooseEdges;
    this.now = now;
  }

  find(statement: Prepared, ...values: SQLQueryBindings[]): SqlRow | undefined {
    this.assertUsable();
    try {
      return statement.get(...values) ?? undefined;
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  /** Says of a record that cannot be read whether it is only hidden. */
  findRecord(generation: Uint8Array): SqlRow | undefined {
    try {
      return this.find(this.sql.findContent, generation);
    } catch (error) {
      if (!isDamage(error) || !isRecordHidden(this.sql, generation)) throw error;
      throw new StoreUnavailable(INDEX_DAMAGED, { cause: error.cause, isDamage: true, isIndex: true });
    }
  }

  /** Finds those of many nodes that have no row, with few statements. Some may be missing in the result. */
  learnAbsent(spaceId: number, hashes: readonly Hash[]): ReadonlySet<Hash> {
    const unknown = hashes.filter((hash) => this.rows.find(nodeKey(spaceId, hash)) === undefined);
    const find = (space: number, some: readonly Uint8Array[]) =>
      this.findAll(this.sql.findKnownNodes, space, ...some);
    const absent = findAbsent(find, spaceId, unknown);
    for (const hash of absent) this.rows.learnAbsent(nodeKey(spaceId, hash));
    return absent;
  }

  readStored(spaceId: number): Stored {
    this.assertUsable();
    return guardNow('reading', () => this.ledger.readStored(spaceId));
  }

  readHoldings(spaceId: number): SpaceHoldings {
    this.assertUsable();
    return guardNow('reading', () => readHoldingsOf(this.sql, spaceId));
  }

  findAll(statement: Prepared, ...values: SQLQueryBindings[]): SqlRow[] {
    this.assertUsable();
    try {
      return statement.all(...values);
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  /** The next reads of this batch use the disk, except for rows that the batch itself has written. */
  letGoOfPages(): void {
    this.assertUsable();
    guardNow('reading', () => letGoOfPages(this.#database));
  }

  /** Returns how many rows changed. */
  write(statement: Prepared, ...values: SQLQueryBindings[]): number {
    this.beginWriting();
    try {
      return statement.run(...values).changes;
    } catch (error) {
      throw storageError(error, 'writing');
    }
  }

  /** A write whose rule names exactly one row. */
  writeOne(rule: string, statement: Prepared, ...values: SQLQueryBindings[]): void {
    if (this.write(statement, ...values) !== 1) this.failRule(rule, statement);
  }

  /**
   * A statement that does not find its row breaks a rule, unless its table is damaged: rows out of order hide others. @throws
   * StoreUnavailable, as damage, or InvariantViolation
   */
  failRule(rule: string, statement: Prepared): never {
    const [, table = ''] = /\b(?:INTO|UPDATE|FROM) (\w+)/.exec(statement.toString()) ?? [];
    const fault = guardNow('reading', () => this.#batch.faults.find(table));
    if (fault !== undefined)
      throw storageError(new DatabaseDamaged(`the table ${table}: ${fault}`), 'writing');
    throw new InvariantViolation(`broken invariant: ${rule}`);
  }

  /** The body failed without a savepoint: nothing of the batch may stay. */
  get isSpoiling(): boolean {
    return this.#isSpoiling;
  }

  beginWriting(): void {
    this.assertUsable();
    if (this.#state !== 'reading') return;
    if (!this.#batch.isGuarded) {
      this.#state = 'bare';
      return;
    }
    guardNow('writing', () => this.sql.savepoint.run());
    this.#state = 'guarded';
  }

  /** Adds to a Space's counters; taken back if the body fails. */
  count(spaceId: number, change: KeptCounters): void {
    this.ledger.add(spaceId, change, 1);
    this.#undo.push(() => this.ledger.add(spaceId, change, -1));
  }

  /** Counts rows that SQLite did not have, and remembers them. */
  countNew(spaceId: number, published: readonly PublishedRow[]): void {
    const keys: string[] = [];
    const rows: NodeRow[] = [];
    const watermark = this.ledger.readWatermark(spaceId);
    let leasedCount = 0;
    for (const { node } of published) {
      const key = nodeKey(spaceId, node.hash);
      this.rows.insert(key, node);
      keys.push(key);
      rows.push(node);
      if (node.leaseExpiresAt > watermark) leasedCount += 1;
    }
    this.onUndo(() => {
      for (const key of keys) this.rows.undo(key);
    });
    this.count(spaceId, { ...totalUsage(rows), leasedCount });
  }

  onUndo(undo: () => void): void {
    this.#undo.push(undo);
  }

  /** Makes the active uploads of a Space be counted again, now and if this body is undone. */
  recountUploads(id: number): void {
    this.activeUploads.forget(id);
    this.onUndo(() => this.activeUploads.forget(id));
  }

  /** Runs when the body has ended well, before its writes are kept. */
  beforeKeep(work: () => void): void {
    this.#last.push(work);
  }

  keep(): void {
    for (const work of this.#last) work();
    if (this.#state !== 'reading') this.assertUsable();
    if (this.#state === 'guarded') this.sql.release.run();
    this.#state = 'ended';
  }

  undo(): void {
    for (const undo of this.#undo.reverse()) undo();
    // SQLite may have rolled everything back by itself (disk full); the batch then fails as a whole.
    if (this.#state === 'bare') this.#isSpoiling = true;
    if (this.#state === 'guarded' && this.#database.inTransaction) {
      this.sql.rollbackTo.run();
      this.sql.release.run();
    }
    this.#state = 'ended';
  }

  assertUsable(): void {
    if (this.#state === 'ended') throw new Error('a transaction was used after its body had ended');
    if (!this.#database.inTransaction) {
      throw new StoreUnavailable('SQLite took the transaction back: try again');
    }
  }
}

interface Known {
  count: number;
  /** ms; the count is right at every instant from here … */
  readonly from: number;
  /** … until here, when one of them expires */
  until: number;
}

export class ActiveUploads {
  readonly #known = new Map<number, Known>();

  find(spaceId: number, now: number): number | undefined {
    const known = this.#known.get(spaceId);
    return known !== undefined && known.from <= now && now < known.until ? known.count : undefined;
  }

  /** `count`: the uploads that expire after `now`; the first of them expires at `firstExpiresAt`. */
  learn(spaceId: number, now: number, count: number, firstExpiresAt: number | undefined): void {
    this.#known.set(spaceId, { count, from: now, until: firstExpiresAt ?? Number.POSITIVE_INFINITY });
  }

  /** An upload was added (1) or removed (-1). */
  change(spaceId: number, urlExpiresAt: number, by: 1 | -1): void {
    const known = this.#known.get(spaceId);
    if (known === undefined || urlExpiresAt <= known.from) return;
    known.count += by;
    known.until = Math.min(known.until, urlExpiresAt);
  }

  /** The number may be wrong: the next upload counts again. */
  forget(spaceId: number): void {
    this.#known.delete(spaceId);
  }
}

/** Counted no further than `atMost`. */
export function countActive(scope: WriteScope, space: number, atMost: number): number {
  const { activeUploads, now, sql } = scope;
  const known = activeUploads.find(space, now);
  if (known !== undefined) return Math.min(known, atMost);
  let count = 0;
  for (const statement of [sql.countActiveUploads, sql.countActivePacks]) {
    count += Number(scope.find(statement, space, now, atMost - count)?.count ?? 0);
    if (count >= atMost) return count;
  }
  const expiries = [sql.findNextUploadExpiry, sql.findNextPackExpiry]
    .map((statement) => scope.find(statement, space, now)?.url_expires_at as number | undefined)
    .filter((at) => at !== undefined);
  activeUploads.learn(space, now, count, expiries.length === 0 ? undefined : Math.min(...expiries));
  return count;
}
