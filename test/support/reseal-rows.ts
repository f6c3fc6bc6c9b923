/**
 * Gives rows that a test has changed the sums of what they say now: they are wrong, and nothing but a recount or their bytes tells. Rows
 * whose sums are wrong are the matter of `proof/row-rot`.
 */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { pagesOfTable, toSqlRow } from '../../packages/server/engine/sqlite/sums/damaged-rows.ts';
import { SUMMED_TABLES, type SummedTable } from '../../packages/server/engine/sqlite/sums/tables.ts';

export function changeRows(database: Database, sql: string): number {
  const { changes } = database.run(sql);
  database.run('BEGIN IMMEDIATE');
  for (const table of SUMMED_TABLES) if (!table.isOptional) reseal(database, table);
  database.run('COMMIT');
  return changes;
}

/** Unlike an upgrade, which believes no row that contradicts another one. */
function reseal(database: Database, table: SummedTable): void {
  const { name, key, sumColumn, sumOf, derived } = table;
  const where = key.map((column) => `${column} = ?`).join(' AND ');
  for (const row of [...pagesOfTable(database, table)].flat()) {
    const plain = toSqlRow(row);
    const keys = key.map((column) => row[column] as SQLQueryBindings);
    for (const [column, value] of Object.entries({ [sumColumn]: sumOf(plain), ...derived?.(plain) })) {
      if (value === undefined) continue;
      database
        .query<unknown, SQLQueryBindings[]>(`UPDATE ${name} SET ${column} = ? WHERE ${where}`)
        .run(value, ...keys);
    }
  }
}
