/** Looks for rows that do not have the sum that they carry, and for the one bit that is wrong in them. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { findBit, type StoredValue } from '../../../core/rows/find-bit.ts';
import { isSum } from '../../../core/rows/row-sums.ts';
import { ROWS_PER_STATEMENT } from '../../rows/work.ts';
import type { SqlRow } from '../statements.ts';
import type { SummedTable } from './tables.ts';

/** Integers with all of their bits. */
export type StoredRow = Readonly<Record<string, StoredValue>>;

export interface DamagedRow {
  readonly row: StoredRow;
  /** the column that is wrong; undefined: more than one bit is wrong */
  readonly column: string | undefined;
  /** the original row, or a safe replacement; undefined if neither is known */
  readonly mended: StoredRow | undefined;
}

export function* findDamagedRows(database: Database, table: SummedTable): Generator<DamagedRow> {
  for (const page of pagesOfTable(database, table)) yield* damagedOf(database, table, page);
}

export function damagedOf(database: Database, table: SummedTable, page: readonly StoredRow[]): DamagedRow[] {
  return page.flatMap((row) => {
    if (isWhole(table, row)) return [];
    const bit = findDerived(table, row) ?? findWrongBit(table, row);
    const mended =
      bit === undefined
        ? (recount(database, table, row) ?? reset(table, row))
        : { ...row, [bit.column]: bit.value };
    return [{ row, column: bit?.column, mended }];
  });
}

/** Proven by the sum that the row carries. */
function recount(database: Database, table: SummedTable, row: StoredRow): StoredRow | undefined {
  if (table.recount === undefined) return undefined;
  const values = Object.entries(table.recount(database, toSqlRow(row)));
  const counted = { ...row, ...Object.fromEntries(values.map(([column, value]) => [column, BigInt(value)])) };
  return hasSum(table, counted) ? counted : undefined;
}

function reset(table: SummedTable, row: StoredRow): StoredRow | undefined {
  const values = Object.fromEntries((table.counted ?? []).map((column) => [column, 0n]));
  const sum = table.counted && table.sumOf(toSqlRow({ ...row, ...values }));
  return sum === undefined ? undefined : { ...row, ...values, [table.sumColumn]: BigInt(sum) };
}

export function* pagesOfTable(database: Database, table: SummedTable): Generator<StoredRow[]> {
  const { name, key } = table;
  const columns = table.columns?.join(', ') ?? '*';
  const order = `ORDER BY ${key.join(', ')} LIMIT ${ROWS_PER_STATEMENT}`;
  const places = key.map((_, index) => `?${index + 1}`).join(', ');
  using first = database.prepare<StoredRow, []>(`SELECT ${columns} FROM ${name} ${order}`);
  first.safeIntegers(true);
  let page = first.all();
  if (page.length > 0) yield page;
  if (page.length < ROWS_PER_STATEMENT) return;
  using next = database.prepare<StoredRow, SQLQueryBindings[]>(
    `SELECT ${columns} FROM ${name} WHERE (${key.join(', ')}) > (${places}) ${order}`,
  );
  next.safeIntegers(true);
  while (page.length === ROWS_PER_STATEMENT) {
    const last = page.at(-1) as StoredRow;
    page = next.all(...key.map((column) => last[column] as StoredValue));
    if (page.length > 0) yield page;
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

export function hasSum({ sumColumn, sumOf, isOptional }: SummedTable, row: StoredRow): boolean {
  if (isOptional && row[sumColumn] === null) return true;
  const plain = toSqlRow(row);
  const sum = sumOf(plain);
  return sum !== undefined && isSum(plain[sumColumn], sum);
}

interface WrongBit {
  readonly column: string;
  readonly value: StoredValue;
}

function findDerived(table: SummedTable, row: StoredRow): WrongBit | undefined {
  if (table.derived === undefined || !hasSum(table, row)) return undefined;
  const plain = toSqlRow(row);
  const wrong = Object.entries(table.derived(plain)).find(([column, value]) => plain[column] !== value);
  return wrong && { column: wrong[0], value: BigInt(wrong[1]) };
}

export function findWrongBit(table: SummedTable, row: StoredRow): WrongBit | undefined {
  const lengthOf = (column: string): number => (row[column] as { length?: number } | null)?.length ?? 0;
  const columns = Object.keys(row).sort((left, right) => lengthOf(left) - lengthOf(right));
  return findBit(row, columns, (other) => hasSum(table, other));
}
