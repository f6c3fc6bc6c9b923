/**
 * The connection that reads content, from the disk each time, so that damage is found at once and not when a cache forgets.
 * Reads of one turn of the event loop share one transaction and its pages, because a transaction for each, and reading the same
 * inner pages again, costs more than the content. Nothing is kept from one turn to the next.
 *
 * Reads still see every acknowledged commit, because the transaction ends before a commit is acknowledged. If other processes
 * write too, every read has a transaction of its own.
 */
import type { Database } from 'bun:sqlite';
import { letGoOfPages, openReader } from './database.ts';
import { endReading, finalize, prepareReads, type ReadStatements } from './statements.ts';

export class DiskReads {
  readonly #database: Database;
  readonly #sql: ReadStatements;
  readonly #isShared: boolean;
  #isOpen = false;

  constructor(path: string, isShared: boolean) {
    this.#isShared = isShared;
    this.#database = openReader(path, isShared ? 0 : 1024 * 1024);
    this.#sql = prepareReads(this.#database);
  }

  /** Use the result in this turn of the event loop. */
  get sql(): ReadStatements {
    if (!this.#isOpen && !this.#isShared) this.#begin();
    return this.#sql;
  }

  /** Ends the shared transaction, so that the next read uses the disk again. */
  endTurn(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    endReading(this.#database, this.#sql);
    letGoOfPages(this.#database);
  }

  close(): void {
    this.endTurn();
    finalize(this.#sql);
    this.#database.close(true);
  }

  #begin(): void {
    this.#sql.beginReading.run();
    this.#isOpen = true;
    setImmediate(this.#turned);
  }

  readonly #turned = (): void => this.endTurn();
}
