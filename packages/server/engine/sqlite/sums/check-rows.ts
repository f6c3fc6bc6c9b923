/** Looks at the sums of all rows for a check, and mends those in which one bit is wrong. Holds up no writer for more than one row. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import type { RowDamage, RowLook } from '../../../core/inspection-ports.ts';
import type { Space } from '../../../core/model.ts';
import { rowDamage, unreachedBeside } from '../../../core/rows/row-advice.ts';
import { guard, guardNow, isDamageMet, storageError } from '../../local-failure.ts';
import { replaces } from '../../rows/replaced-row.ts';
import { openReader, openWriter } from '../database.ts';
import { assertSchema } from '../migrations.ts';
import { bytesToHex } from '../rows.ts';
import { findSpaceOf } from '../space-directory.ts';
import type { SqlRow } from '../statements.ts';
import {
  type DamagedRow,
  damagedOf,
  hasSum,
  pagesOfTable,
  type StoredRow,
  toSqlRow,
} from './damaged-rows.ts';
import { PROTECTING_TABLES, SUMMED_TABLES, type SummedTable } from './tables.ts';
import { findUnreachedTables } from './unreached.ts';

/** `path`: the database file */
export async function checkRows(path: string, look: RowLook): Promise<readonly RowDamage[]> {
  using database = guardNow('opening the rows', () => openReader(path, 1024 * 1024));
  guardNow('reading the schema of the rows', () => assertSchema(database));
  const found: RowDamage[] = [];
  for (const table of SUMMED_TABLES) {
    if (look.signal.aborted) break;
    if (table.name !== (look.onlyTable ?? table.name)) continue;
    look.onTable(table.name);
    found.push(...(await checkTable(database, path, table, look)));
  }
  // A row with two sums, such as that of a Space, has its key in both.
  const named = [...new Map(found.map((damage) => [damage.message, damage])).values()];
  if (look.onlyTable !== undefined) return named;
  const findTables = () => guard('looking at rows', () => findUnreachedTables(database));
  return [...named, ...(await unreachedBeside(named, findTables))];
}

async function checkTable(
  database: Database,
  path: string,
  table: SummedTable,
  { signal, isRepaired }: RowLook,
): Promise<readonly RowDamage[]> {
  const found: RowDamage[] = [];
  try {
    for (const page of pagesOfTable(database, table)) {
      for (const damaged of damagedOf(database, table, page)) {
        // The page is of a moment ago: what has changed since is looked at again.
        if (isAsBefore(database, table, damaged.row)) {
          const mend = isRepaired ? mendRow(path, table, damaged) : UNMENDED;
          found.push({ ...describe(database, table, damaged, mend.repaired), freed: mend.freed });
        }
      }
      // Requests go between two pages.
      await new Promise((resolve) => setImmediate(resolve));
      if (signal.aborted) break;
    }
  } catch (error) {
    // The look at all pages names the page.
    if (!isDamageMet(error)) throw storageError(error, 'looking at rows');
  }
  return found;
}

/** A text whose bytes are no UTF-8 any more cannot be asked for: the sum that the row carries finds it. */
const LOST_CHARACTER = '\ufffd';

function placeOf({ key, sumColumn }: SummedTable, row: StoredRow): readonly string[] {
  const isAskable = (column: string): boolean => !String(row[column]).includes(LOST_CHARACTER);
  return [...key.filter((column) => row[column] instanceof Uint8Array || isAskable(column)), sumColumn];
}

/** The parameters begin with `first`. */
function whereOf(columns: readonly string[], first: number): string {
  return columns.map((column, index) => `${column} = ?${first + index}`).join(' AND ');
}

function isAsBefore(database: Database, table: SummedTable, row: StoredRow): boolean {
  const place = placeOf(table, row);
  using statement = database.prepare<StoredRow, SQLQueryBindings[]>(
    `SELECT 1 AS known FROM ${table.name} WHERE ${whereOf(place, 1)}`,
  );
  return statement.get(...place.map((column) => row[column] as SQLQueryBindings)) !== null;
}

type Mend = Pick<RowDamage, 'repaired' | 'freed'>;
const UNMENDED: Mend = { repaired: false };

/** Whether it could: the key that the row has to have may be taken meanwhile. */
function mendRow(path: string, table: SummedTable, { row, mended }: DamagedRow): Mend {
  if (mended === undefined) return UNMENDED;
  const changed = Object.keys(mended).filter((column) => mended[column] !== row[column]);
  const set = changed.map((column, index) => `${column} = ?${index + 1}`).join(', ');
  const place = placeOf(table, row);
  using writer = openWriter(path, undefined);
  try {
    using statement = writer.prepare<unknown, SQLQueryBindings[]>(
      `UPDATE ${table.name} SET ${set} WHERE ${whereOf(place, changed.length + 1)}`,
    );
    const old = place.map((column) => row[column]);
    const values = [...changed.map((column) => mended[column]), ...old] as SQLQueryBindings[];
    return { repaired: statement.run(...values).changes === 1 };
  } catch (error) {
    const code = error instanceof Error ? String(Object(error).code) : '';
    if (code.startsWith('SQLITE_CONSTRAINT') && table.name === 'nodes')
      return guardNow('mending a row', () => dropReplaced(writer, table, row, mended));
    if (/SQLITE_(CONSTRAINT|CORRUPT)/.test(code)) return UNMENDED;
    throw storageError(error, 'mending a row');
  }
}

/** An upload has made a new row of the node whose row had a wrong key. */
function dropReplaced(writer: Database, table: SummedTable, row: StoredRow, mended: StoredRow): Mend {
  using find = writer.prepare<StoredRow, SQLQueryBindings[]>(
    'SELECT * FROM nodes WHERE space = ?1 AND hash = ?2',
  );
  find.safeIntegers(true);
  const stands = find.get(mended.space as SQLQueryBindings, mended.hash as SQLQueryBindings);
  if (stands === null || !hasSum(table, stands) || !replaces(stands, mended)) return UNMENDED;
  const place = placeOf(table, row);
  const { changes } = writer.run(
    `DELETE FROM nodes WHERE ${whereOf(place, 1)}`,
    place.map((column) => row[column] as SQLQueryBindings),
  );
  return changes === 1 ? { repaired: true, freed: bytesToHex(mended.generation as Uint8Array) } : UNMENDED;
}

function describe(
  database: Database,
  table: SummedTable,
  { row, column, mended }: DamagedRow,
  repaired: boolean,
): RowDamage {
  const right = toSqlRow(mended ?? row);
  const cause =
    column === undefined ? 'has numbers that other rows contradict' : `has one wrong bit in ${column}`;
  return rowDamage(`the row of ${table.name} ${nameOf(table, right)}`, {
    ...{ table: table.name, space: findSpace(database, table, right), repaired },
    hash: right.hash instanceof Uint8Array ? bytesToHex(right.hash) : undefined,
    isProtecting: PROTECTING_TABLES.has(table.name),
    fault: mended && cause,
  });
}

function nameOf({ key }: SummedTable, row: SqlRow): string {
  const named = ['generation', ...key].filter((column) => row[column] !== undefined && column !== 'space');
  return [...new Set(named)].map((column) => `${column} ${textOf(row[column])}`).join(', ');
}

const textOf = (value: unknown): string =>
  value instanceof Uint8Array ? bytesToHex(value) : JSON.stringify(value);

/** Returns undefined if the Space is unknown. */
function findSpace(database: Database, { spaceBy, sumColumn }: SummedTable, row: SqlRow): Space | undefined {
  if (spaceBy === 'none') return undefined;
  const id = spaceBy === 'id' ? row.id : spaceBy === 'space' ? row.space : findSpaceOfDomain(database, row);
  if (sumColumn === 'name_sum') return { appId: row.app_id as string, spaceId: row.space_id as string };
  if (typeof id !== 'number' || !Number.isSafeInteger(id)) return undefined;
  using statement = database.prepare<SqlRow, [number]>(
    'SELECT id, app_id, space_id, name_sum FROM spaces WHERE id = ?1',
  );
  return findSpaceOf(statement.get(id));
}

function findSpaceOfDomain(database: Database, { domain }: SqlRow): unknown {
  if (typeof domain !== 'number' || !Number.isSafeInteger(domain)) return undefined;
  using statement = database.prepare<SqlRow, [number]>('SELECT space FROM domains WHERE id = ?1');
  return statement.get(domain)?.space;
}
