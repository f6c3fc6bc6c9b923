/** Gives rows that are older than sums theirs. */
import type { PostgresPool } from '../wire/connection-pool.ts';
import type { SqlRow } from '../wire/sql-values.ts';
import { findBitMend, isProven } from './check-rows.ts';
import { mendRow, pagesOfTable, type StoredRow, toSqlRow } from './stored-rows.ts';
import { SHARED_TABLES, type SummedTable } from './tables.ts';

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

/** The row as it was read, or not at all: who writes it meanwhile gives it its sums. */
async function fillRow(pool: PostgresPool, table: SummedTable, row: StoredRow): Promise<void> {
  const sums = Object.entries(table.sumsOf(toSqlRow(table, row.values) as SqlRow));
  await mendRow(pool, table, row, Object.fromEntries(sums.map(([column, sum]) => [column, BigInt(sum)])));
}
