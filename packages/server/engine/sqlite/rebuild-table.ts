/** Builds the indexes of a damaged table anew, and the table itself where its rows are only out of order. */
import type { Database } from 'bun:sqlite';
import { codeOf } from '../../error-code.ts';
import { isBusy } from '../local-failure.ts';
import { findFault, listFaults, openWriter } from './database.ts';

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
  using writer = openWriter(path, undefined);
  try {
    // While this check is on, SQLite refuses to read a page with a damaged cell, and to empty it.
    writer.run('PRAGMA cell_size_check = OFF');
    // To empty a tree that holds a page of another would empty that one too.
    if (hasSharedPage(writer)) return false;
    writer.run('PRAGMA temp_store = FILE');
    writer.run('BEGIN IMMEDIATE');
    const hasAll = table === RECORDS && hasAllRecords(writer);
    const copied = hasAll ? recordsOf(writer) : ALL_ROWS;
    const isSound =
      isSoundAfter(writer, table, () => void writer.run(`REINDEX "${table}"`)) ||
      ((hasAll || listFaults(writer, table).every(isOutOfOrder)) &&
        isSoundAfter(writer, table, () => putInOrder(writer, table, copied)));
    writer.run(isSound ? 'COMMIT' : 'ROLLBACK');
    return isSound;
  } catch (error) {
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

function isSoundAfter(writer: Database, table: string, work: () => void): boolean {
  work();
  return findFault(writer, table) === undefined;
}

/** The index, whose keys are on pages of its own, does not know of more rows. */
function hasAllRecords(database: Database): boolean {
  using statement = database.prepare<{ isSame: number }, []>(
    `SELECT (SELECT count(*) FROM ${RECORDS} NOT INDEXED) =
      (SELECT count(*) FROM ${RECORDS} INDEXED BY sqlite_autoindex_contents_1) AS isSame`,
  );
  return statement.get()?.isSame === 1;
}

interface Copied {
  readonly columns: string;
  readonly condition: string;
}

const ALL_ROWS: Copied = { columns: '*', condition: '1' };

/** The copy is a file that SQLite removes: the table may be larger than the memory. */
function putInOrder(writer: Database, table: string, { columns, condition }: Copied): void {
  writer.run('PRAGMA ignore_check_constraints = ON');
  writer.run(
    `CREATE TEMP TABLE in_order AS SELECT ${columns} FROM "${table}" NOT INDEXED WHERE ${condition}`,
  );
  writer.run(`DELETE FROM "${table}"`);
  writer.run(`INSERT INTO "${table}" SELECT * FROM in_order`);
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
  const needed = columns.filter(({ notnull }) => notnull === 1);
  return {
    columns: columns
      .map(({ name, type }) =>
        type === 'BLOB' ? `iif(typeof(${name}) = 'text', CAST(${name} AS BLOB), ${name})` : name,
      )
      .join(', '),
    condition: needed.map(({ name, type }) => `${kindOf(name)} = '${type.toLowerCase()}'`).join(' AND '),
  };
}
