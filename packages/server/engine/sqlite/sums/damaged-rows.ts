/** Looks for rows that do not have the sum that they carry, and for the one bit that is wrong in them. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { findBit, type StoredValue } from '../../../core/rows/find-bit.ts';
import { isSum } from '../../../core/rows/row-sum.ts';
import type { SqlRow } from '../statements.ts';
import { type SummedTable, selectionOf } from './tables.ts';

/** Integers with all of their bits. */
export type StoredRow = Readonly<Record<string, StoredValue>>;

export interface DamagedRow {
  readonly row: StoredRow;
  /** the column that is wrong and what it was; undefined: more than one bit is wrong */
  readonly bit: { readonly column: string; readonly value: StoredValue } | undefined;
  /** the row as it was */
  readonly mended: StoredRow | undefined;
}

const ROWS_AT_ONCE = 512;

export function* findDamagedRows(database: Database, table: SummedTable): Generator<DamagedRow> {
  for (const page of pagesOfTable(database, table)) yield* damagedOf(table, page);
}

export function damagedOf(table: SummedTable, page: readonly StoredRow[]): DamagedRow[] {
  return page.flatMap((row) => {
    if (isWhole(table, row)) return [];
    const bit = findDerived(table, row) ?? findWrongBit(table, row);
    return [{ row, bit, mended: bit && { ...row, [bit.column]: bit.value } }];
  });
}

/** The rows in the order of their keys. */
export function* pagesOfTable(database: Database, table: SummedTable): Generator<StoredRow[]> {
  const { name, key } = table;
  const columns = selectionOf(table);
  const order = `ORDER BY ${key.join(', ')} LIMIT ${ROWS_AT_ONCE}`;
  const places = key.map((_, index) => `?${index + 1}`).join(', ');
  using first = database.prepare<StoredRow, []>(`SELECT ${columns} FROM ${name} ${order}`);
  using next = database.prepare<StoredRow, SQLQueryBindings[]>(
    `SELECT ${columns} FROM ${name} WHERE (${key.join(', ')}) > (${places}) ${order}`,
  );
  for (const statement of [first, next]) statement.safeIntegers(true);
  let page = first.all();
  while (page.length > 0) {
    yield page;
    const last = page.at(-1) as StoredRow;
    page = page.length < ROWS_AT_ONCE ? [] : next.all(...key.map((column) => last[column] as StoredValue));
  }
}

/** As statements that run for requests give it. */
export function toSqlRow(row: StoredRow): SqlRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === 'bigint' ? Number(value) : value]),
  );
}

function isWhole(table: SummedTable, row: StoredRow): boolean {
  return hasSum(table, row) && findDerived(table, row) === undefined;
}

function hasSum({ sumColumn, sumOf }: SummedTable, row: StoredRow): boolean {
  const plain = toSqlRow(row);
  const sum = sumOf(plain);
  return sum !== undefined && isSum(plain[sumColumn], sum);
}

/** Of a row that has its sum. */
function findDerived(table: SummedTable, row: StoredRow): DamagedRow['bit'] {
  if (table.derived === undefined || !hasSum(table, row)) return undefined;
  const plain = toSqlRow(row);
  const wrong = Object.entries(table.derived(plain)).find(([column, value]) => plain[column] !== value);
  return wrong && { column: wrong[0], value: BigInt(wrong[1]) };
}

function findWrongBit(table: SummedTable, row: StoredRow): DamagedRow['bit'] {
  return findBit(row, [table.sumColumn, ...table.columns], (other) => hasSum(table, other));
}
