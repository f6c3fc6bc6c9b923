/** Gives the rows of an older database their sums. Part of a migration. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { isDamageMet } from '../../local-failure.ts';
import { storeSum } from '../ledger-rows.ts';
import { findWrongBit, hasSum, pagesOfTable, type StoredRow, toSqlRow } from './damaged-rows.ts';
import { STORE, SUMMED_TABLES, type SummedTable } from './tables.ts';

export function fillSums(database: Database): void {
  for (const table of SUMMED_TABLES) if (!table.isOptional) fillTable(database, table);
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

/** At each start: one wrong bit of a value of the store must not keep a server from starting, and is put right. */
export function proveStore(database: Database): void {
  try {
    proveValues(database);
  } catch (error) {
    // Who needs a value on that page says so.
    if (!isDamageMet(error)) throw error;
  }
}

function proveValues(database: Database): void {
  using update = database.prepare<unknown, SQLQueryBindings[]>(
    'UPDATE OR IGNORE store SET name = ?1, value = ?2, row_sum = ?3 WHERE name = ?4',
  );
  for (const page of pagesOfTable(database, STORE)) {
    for (const row of page) {
      const isNew = row.row_sum === null;
      const bit = isNew || hasSum(STORE, row) ? undefined : findWrongBit(STORE, row);
      if (!isNew && bit === undefined) continue;
      const { name, value } = { ...row, ...(bit && { [bit.column]: bit.value }) } as Record<string, string>;
      update.run(
        name as string,
        value as string,
        storeSum(name as string, value as string),
        row.name as string,
      );
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
