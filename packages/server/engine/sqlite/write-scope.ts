/**
 * One body's part of a batch: opens a savepoint at the first write, keeps or undoes it, and refuses to be used afterwards. A body
 * whose only write comes last, such as a renewal, has no savepoint: that statement runs after everything else has succeeded.
 */
import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite';
import { assertInvariant } from '../../core/invariant.ts';
import { StoreUnavailable } from '../../core/ports.ts';
import type { Stored } from '../../core/quotas.ts';
import { storageError } from '../local-failure.ts';
import type { ActiveUploads } from './active-uploads.ts';
import { letGoOfPages } from './database.ts';
import type { BatchRows } from './node-cache.ts';
import type { LedgerEntry, SpaceLedger } from './space-ledger.ts';
import type { SqlRow, Statements } from './statements.ts';

type Prepared = Statement<SqlRow, SQLQueryBindings[]>;

/** What the bodies of one SQLite transaction share. */
export interface Batch {
  readonly ledger: SpaceLedger;
  readonly rows: BatchRows;
  readonly activeUploads: ActiveUploads;
}

interface LastWrite {
  readonly rule: string;
  readonly statement: Prepared;
  readonly values: SQLQueryBindings[];
}

export class WriteScope {
  readonly sql: Statements;
  readonly ledger: SpaceLedger;
  readonly rows: BatchRows;
  readonly activeUploads: ActiveUploads;
  /** ms; the instant of this transaction */
  readonly now: number;
  readonly #database: Database;
  readonly #undo: (() => void)[] = [];
  readonly #last: (() => void)[] = [];
  #lastWrite: LastWrite | undefined;
  #isHalfDone = false;
  #state: 'reading' | 'writing' | 'ended' = 'reading';

  constructor(sql: Statements, database: Database, batch: Batch, now: number) {
    this.sql = sql;
    this.#database = database;
    this.ledger = batch.ledger;
    this.rows = batch.rows;
    this.activeUploads = batch.activeUploads;
    this.now = now;
  }

  find(statement: Prepared, ...values: SQLQueryBindings[]): SqlRow | undefined {
    this.#writeWaiting();
    try {
      return statement.get(...values) ?? undefined;
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  readStored(spaceId: number): Stored {
    this.#writeWaiting();
    try {
      return this.ledger.readStored(spaceId);
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  findAll(statement: Prepared, ...values: SQLQueryBindings[]): SqlRow[] {
    this.#writeWaiting();
    try {
      return statement.all(...values);
    } catch (error) {
      throw storageError(error, 'reading');
    }
  }

  /** The next reads of this batch use the disk, except for rows that the batch itself has written. */
  letGoOfPages(): void {
    this.#writeWaiting();
    try {
      letGoOfPages(this.#database);
    } catch (error) {
      throw storageError(error, 'reading');
    }
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
    assertInvariant(this.write(statement, ...values) === 1, rule);
  }

  /** As `writeOne`, for a write that is usually the only one of its body: it waits until the body asks for more, or has ended. */
  writeLast(rule: string, statement: Prepared, ...values: SQLQueryBindings[]): void {
    this.#writeWaiting();
    if (this.#state === 'writing') this.writeOne(rule, statement, ...values);
    else this.#lastWrite = { rule, statement, values };
  }

  /** Runs the waiting write first, in the savepoint, because it was not the last one. */
  #writeWaiting(): void {
    this.assertUsable();
    const waiting = this.#lastWrite;
    if (waiting === undefined) return;
    this.#lastWrite = undefined;
    this.writeOne(waiting.rule, waiting.statement, ...waiting.values);
  }

  #writeUnguarded({ rule, statement, values }: LastWrite): void {
    this.assertUsable();
    let changes: number;
    try {
      changes = statement.run(...values).changes;
    } catch (error) {
      this.#isHalfDone = true;
      throw storageError(error, 'writing');
    }
    assertInvariant(changes === 1, rule);
  }

  /** A statement failed that no savepoint can undo: nothing of the batch may stay. */
  get isHalfDone(): boolean {
    return this.#isHalfDone;
  }

  beginWriting(): void {
    this.#writeWaiting();
    if (this.#state === 'writing') return;
    try {
      this.sql.savepoint.run();
    } catch (error) {
      throw storageError(error, 'writing');
    }
    this.#state = 'writing';
  }

  /** Adds to a Space's counters; taken back if the body fails. */
  count(spaceId: number, change: LedgerEntry): void {
    this.ledger.add(spaceId, change, 1);
    this.#undo.push(() => this.ledger.add(spaceId, change, -1));
  }

  onUndo(undo: () => void): void {
    this.#undo.push(undo);
  }

  /** Runs when the body has ended well, before its writes are kept. */
  beforeKeep(work: () => void): void {
    this.#last.push(work);
  }

  keep(): void {
    for (const work of this.#last) work();
    if (this.#lastWrite !== undefined) this.#writeUnguarded(this.#lastWrite);
    if (this.#state === 'writing') {
      this.assertUsable();
      this.sql.release.run();
    }
    this.#state = 'ended';
  }

  undo(): void {
    for (const undo of this.#undo.reverse()) undo();
    // SQLite may have rolled everything back by itself (disk full); the batch then fails as a whole.
    if (this.#state === 'writing' && this.#database.inTransaction) {
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
