/** Gives the rows of an older database their sums. Part of a migration. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { pagesOfTable, type StoredRow, toSqlRow } from './damaged-rows.ts';
import { SUMMED_TABLES, type SummedTable } from './tables.ts';

export function fillSums(database: Database): void {
  for (const table of SUMMED_TABLES) fillTable(database, table);
}

function fillTable(database: Database, table: SummedTable): void {
  const { name, key, sumColumn, sumOf, derived } = table;
  const where = key.map((column, index) => `${column} = ?${index + 2}`).join(' AND ');
  using setSum = database.prepare<unknown, SQLQueryBindings[]>(
    `UPDATE ${name} SET ${sumColumn} = ?1 WHERE ${where}`,
  );
  for (const page of pagesOfTable(database, table)) {
    for (const row of page) {
      const plain = toSqlRow(row);
      const keys = key.map((column) => row[column] as SQLQueryBindings);
      // A row that has a value which no row has stays as it is: it was damaged before.
      const sum = sumOf(plain);
      if (sum !== undefined) setSum.run(sum, ...keys);
      fillDerived(database, table, row, derived?.(plain) ?? {});
    }
  }
}

/** Columns that follow from the others. */
function fillDerived(
  database: Database,
  { name, key }: SummedTable,
  row: StoredRow,
  values: Readonly<Record<string, number>>,
): void {
  const where = key.map((column, index) => `${column} = ?${index + 2}`).join(' AND ');
  const keys = key.map((column) => row[column] as SQLQueryBindings);
  for (const [column, value] of Object.entries(values)) {
    database
      .query<unknown, SQLQueryBindings[]>(`UPDATE ${name} SET ${column} = ?1 WHERE ${where}`)
      .run(value, ...keys);
  }
}
