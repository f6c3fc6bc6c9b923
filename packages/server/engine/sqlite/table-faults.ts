/** Looks at a whole table for what is wrong with it: that holds up all writers, and finds the same until somebody repairs it. */
import type { Database } from 'bun:sqlite';
import { findFault } from './database.ts';

/** ms */
const LOOK_EVERY_MS = 600_000;

export class TableFaults {
  readonly #database: Database;
  readonly #elapsed: () => number;
  readonly #found = new Map<string, { readonly fault: string; readonly at: number }>();

  /** `elapsed`: ms, by a clock that nobody can set */
  constructor(database: Database, elapsed = () => performance.now()) {
    this.#database = database;
    this.#elapsed = elapsed;
  }

  /** As `findFault`. A fault that was found is said again for a while; a table without one is looked at each time. */
  find(table: string): string | undefined {
    const known = this.#found.get(table);
    if (known !== undefined && this.#elapsed() - known.at < LOOK_EVERY_MS) return known.fault;
    this.#found.delete(table);
    const fault = findFault(this.#database, table);
    if (fault !== undefined) this.#found.set(table, { fault, at: this.#elapsed() });
    return fault;
  }
}
