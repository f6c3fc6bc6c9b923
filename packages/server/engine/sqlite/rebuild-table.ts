/** Builds the indexes of a damaged table anew, and the table itself where its rows are only out of order. */
import type { Database } from 'bun:sqlite';
import { codeOf } from '../../error-code.ts';
import { isBusy } from '../local-failure.ts';
import { findFault, listFaults, openReader, openWriter, READER_CACHE_BYTES } from './database.ts';

/** The error codes of SQLite for pages that are damaged or that the disk cannot read. */
const DAMAGE = /^SQLITE_(?:CORRUPT|NOTADB|IOERR)/;
/** All rows are there, and a look for one of them may pass it by. */
const OUT_OF_ORDER = /\bRowid -?\d+ out of order|\brow not in PRIMARY KEY order|^row \d+ missing from index/;
/**
 * The table in which a row without its values may be left out, because it hides others: the rows of nodes say whose record it was, and
 * their next lease asks for the bytes. A row of other tables may be all that keeps a node.
 */
const RECORDS = 'contents';

export const isOutOfOrder = (fault: string): boolean => OUT_OF_ORDER.test(fault);

/** Too many open files, or a lack of memory, says nothing of the pages. */
export function assertDamage(error: unknown): void {
  if (!DAMAGE.test(codeOf(error) ?? '')) throw error;
}

/** Blocks writers. Returns whether the table is then free of damage; else nothing has changed. */
export function rebuild(path: string, table: string): boolean {
  using reader = openReader(path, READER_CACHE_BYTES);
  // To empty a tree that holds a page of another would empty that one too.
  if (hasSharedPage(reader)) return false;
  using writer = openWriter(path, undefined);
  // While this check is on, SQLite refuses to read a page with a damaged cell, and to empty it.
  writer.run('PRAGMA cell_size_check = OFF');
  writer.run('PRAGMA temp_store = FILE');
  writer.run('PRAGMA ignore_check_constraints = ON');
  return (
    isSoundAfter(writer, table, () => void writer.run(`REINDEX "${table}"`)) ||
    isSoundAfter(writer, table, () => putInOrder(writer, reader, table))
  );
}

/** In one transaction. `work` reads what may be damaged by another connection: SQLite ends a transaction that has met such a row. */
function isSoundAfter(writer: Database, table: string, work: () => void): boolean {
  try {
    writer.run('BEGIN IMMEDIATE');
    work();
    const isSound = findFault(writer, table) === undefined;
    writer.run(isSound ? 'COMMIT' : 'ROLLBACK');
    return isSound;
  } catch (error) {
    if (writer.inTransaction) writer.run('ROLLBACK');
    // Two rows with one key, of which a damaged index missed the first; or another process writes all the time.
    const isLeft = isBusy(error) || codeOf(error)?.startsWith('SQLITE_CONSTRAINT');
    if (!isLeft) assertDamage(error);
    return false;
  }
}

function hasSharedPage(database: Database): boolean {
  using statement = database.prepare<{ quick_check: string }, []>('PRAGMA quick_check(100000)');
  return statement.all().some(({ quick_check: text }) => text.includes('2nd reference'));
}

/** The index, whose keys are on pages of its own, does not know of more rows. */
function hasAllRecords(database: Database): boolean {
  return countRecords(database) === countRecords(database, 'INDEXED BY sqlite_autoindex_contents_1');
}

function countRecords(database: Database, by = 'NOT INDEXED'): number {
  using statement = database.prepare<{ rows: number }, []>(`SELECT count(*) AS rows FROM ${RECORDS} ${by}`);
  return statement.get()?.rows ?? 0;
}

interface Copied {
  readonly columns: string;
  readonly condition: string;
  /** places, in the order of the table, of rows that cannot be read */
  readonly left: readonly number[];
}

const ALL_ROWS: Copied = { columns: '*', condition: '1', left: [] };

/**
 * The copy is a file that SQLite removes: the table may be larger than the memory. Where two places of a page lead to one cell, its row is
 * there twice.
 */
function putInOrder(writer: Database, reader: Database, table: string): void {
  const hasAll = table === RECORDS && hasAllRecords(reader);
  if (!hasAll && !listFaults(reader, table).every(isOutOfOrder)) return;
  const { columns, condition, left } = hasAll ? recordsOf(reader) : ALL_ROWS;
  const rowsFrom = (from: number, to: number): string =>
    `SELECT ${columns} FROM (SELECT * FROM "${table}" NOT INDEXED LIMIT ${to - from} OFFSET ${from}) WHERE ${condition}`;
  const ends = [...left, Number.MAX_SAFE_INTEGER];
  for (const [index, end] of ends.entries()) {
    const rows = rowsFrom(index === 0 ? 0 : (ends[index - 1] as number) + 1, end);
    writer.run(index === 0 ? `CREATE TEMP TABLE in_order AS ${rows}` : `INSERT INTO in_order ${rows}`);
  }
  writer.run(`DELETE FROM "${table}"`);
  writer.run(`INSERT INTO "${table}" SELECT DISTINCT * FROM in_order`);
  writer.run('DROP TABLE in_order');
}

/** Halves what cannot be read until it is one row. A cell with a wrong place or size is no row at all. */
function listUnreadable(reader: Database, values: string, from: number, rows: number): number[] {
  try {
    using look = reader.prepare<unknown, [number, number]>(
      `SELECT ${values} FROM (SELECT * FROM ${RECORDS} NOT INDEXED LIMIT ?1 OFFSET ?2)`,
    );
    look.get(rows, from);
    return [];
  } catch (error) {
    assertDamage(error);
    if (rows === 1) return [from];
    const half = Math.floor(rows / 2);
    const ofSecond = listUnreadable(reader, values, from + half, rows - half);
    return [...listUnreadable(reader, values, from, half), ...ofSecond];
  }
}

/**
 * Records that have a value of the right kind in each column that needs one. One bit of a record's header makes text of bytes, which are
 * whole and of the same length: they are made bytes again.
 */
function recordsOf(database: Database): Copied {
  using statement = database.prepare<{ name: string; type: string; notnull: number }, [string]>(
    'SELECT name, type, "notnull" FROM pragma_table_info(?1)',
  );
  const columns = statement.all(RECORDS);
  const kindOf = (name: string): string => `replace(typeof(${name}), 'text', 'blob')`;
  const values = columns.map(({ name }) => `max(${name})`).join(', ');
  const needed = columns.filter(({ notnull }) => notnull === 1);
  return {
    columns: columns
      .map(({ name, type }) =>
        type === 'BLOB' ? `iif(typeof(${name}) = 'text', CAST(${name} AS BLOB), ${name})` : name,
      )
      .join(', '),
    condition: needed.map(({ name, type }) => `${kindOf(name)} = '${type.toLowerCase()}'`).join(' AND '),
    left: listUnreadable(database, values, 0, countRecords(database)),
  };
}
