/** Gives rows that are older than sums theirs. */

import { sharedSum } from '../row-sums.ts';
import { FIND_NOTE, SET_NOTE } from '../tombstones.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import type { SqlRow, SqlValue } from '../wire/wire-messages.ts';
import { findBitMend, isProven } from './check-rows.ts';
import { mendRow, pagesOfTable, readLacking, type StoredRow, toSqlRow } from './stored-rows.ts';
import { FILLED_TABLES, lackOf, SHARED_TABLES, type SummedTable } from './tables.ts';

/** When a server starts: one wrong bit of what all processes share must not keep it from starting, and is put right. */
export async function proveShared(pool: PostgresPool): Promise<void> {
  for (const table of SHARED_TABLES) {
    for await (const page of pagesOfTable(pool, table)) {
      for (const row of page) {
        if (row.values.row_sum === null) await fillRow(pool, table, row);
        else if (!isProven(table, row.values)) {
          const mend = findBitMend(table, row.values);
          if (mend !== undefined) await mendRow(pool, table, row, mend.values);
        }
      }
    }
  }
}

/** Resolves false if the row was written meanwhile. One that contradicts a sum which it has gets no other. */
async function fillRow(pool: PostgresPool, table: SummedTable, row: StoredRow): Promise<boolean> {
  if (!isProven(table, row.values)) return true;
  const sums = Object.entries(table.sumsOf(toSqlRow(table, row.values) as SqlRow));
  return mendRow(pool, table, row, Object.fromEntries(sums.map(([column, sum]) => [column, BigInt(sum)])));
}

/** The value once all rows have their sums; until then it says where the walk over them is: a table and a key. */
const FILLED_NOTE = 'sums-filled';
const FILLED = 'all';

/** A balance without its node or its domain may be of another one. It gets no sum, and until then counts only rise. */
const FITS: Readonly<Record<string, string>> = {
  balances: `EXISTS (SELECT 1 FROM nodes WHERE nodes.space = balances.space AND nodes.hash = balances.hash)
    AND EXISTS (SELECT 1 FROM domains WHERE domains.space = balances.space AND domains.domain = balances.domain)`,
};

interface Place {
  readonly table: number;
  readonly after: readonly SqlValue[] | undefined;
}

/** Walks all tables once in bounded pages while serving. Node rows are left to the scrub, which proves them. Resumes after a restart. */
export class SumFill {
  readonly #pool: PostgresPool;
  #place: Place | 'end' | undefined;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** Resolves true when a part of the walk is left. */
  async step(): Promise<boolean> {
    this.#place ??= await this.#readPlace();
    for (let seen = 0; this.#place !== 'end' && seen <= FILLED_TABLES.length; seen += 1) {
      const { table: at, after }: Place = this.#place;
      const table = FILLED_TABLES[at];
      if (table === undefined) {
        await this.#note('end');
        break;
      }
      const look = { after, condition: `(${lackOf(table)}) AND ${FITS[table.name] ?? 'true'}`, rows: 10_000 };
      const { lacking, next } = await readLacking(this.#pool, table, look);
      let isWhole = true;
      for (const row of lacking) isWhole = (await fillRow(this.#pool, table, row)) && isWhole;
      // A row that was written meanwhile is looked at again.
      if (isWhole)
        this.#place = next === undefined ? { table: at + 1, after: undefined } : { table: at, after: next };
      // A small table is no step of its own.
      if (!isWhole || lacking.length > 0 || next !== undefined) {
        await this.#note(this.#place);
        return true;
      }
    }
    return false;
  }

  async #readPlace(): Promise<Place | 'end'> {
    const { rows } = await this.#pool.read('reading a note', FIND_NOTE, [FILLED_NOTE]);
    const value = (rows[0]?.value as string | undefined) ?? '[0]';
    if (value === FILLED) return 'end';
    try {
      const [table, ...after] = JSON.parse(value) as [number, ...SqlValue[]];
      const isKey = after.length === FILLED_TABLES[table]?.key.length;
      if (Number.isSafeInteger(table) && table >= 0) return { table, after: isKey ? after : undefined };
    } catch {
      // The walk starts again.
    }
    return { table: 0, after: undefined };
  }

  async #note(place: Place | 'end'): Promise<void> {
    this.#place = place;
    const value = place === 'end' ? FILLED : JSON.stringify([place.table, ...(place.after ?? [])]);
    await this.#pool.run('keeping a note', SET_NOTE, [FILLED_NOTE, value, sharedSum(FILLED_NOTE, value)]);
  }
}
