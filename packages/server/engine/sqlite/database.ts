/** Opens SQLite connections with the settings that durability needs, and checks that they took effect. */
import { Database } from 'bun:sqlite';
import { statSync } from 'node:fs';
import { assertInvariant } from '../../core/invariant.ts';
import { isBusy } from '../local-failure.ts';

const PAGE_BYTES = 4096;
export const READER_CACHE_BYTES = 16 * 1024 * 1024;
/** ms to wait for another process's lock while opening */
const OPEN_BUSY_TIMEOUT_MS = 10_000;

/** The database does not hold what was written. The code is the one that SQLite uses for damage. */
export class DatabaseDamaged extends Error {
  override readonly name = 'DatabaseDamaged';
  readonly code = 'SQLITE_CORRUPT';
}

/** SQLite reads missing bytes of a page as zeros, less than one as empty. Only a crash cuts one; the log has it. @throws DatabaseDamaged */
export function assertWholePages(path: string): void {
  const bytes = sizeOf(path);
  if (bytes % PAGE_BYTES === 0 || sizeOf(`${path}-wal`) > 0 || sizeOf(`${path}-journal`) > 0) return;
  throw new DatabaseDamaged(`${path} is cut off after ${bytes} bytes`);
}

/** A rule of one column that a row breaks. */
const BROKEN_RULE = /^CHECK constraint failed/;

/**
 * A damaged key would make a Space, a domain or an App look absent. Much depends on these few rows, so their tables are compared with their
 * indexes before they are used. A row that breaks a rule is left to the sums of the rows. Returns undefined if there is no fault.
 */
export function findFault(database: Database, table: string): string | undefined {
  return listFaults(database, table)[0];
}

export function listFaults(database: Database, table: string): readonly string[] {
  using statement = database.prepare<{ integrity_check: string }, []>(`PRAGMA integrity_check(${table})`);
  const lines = statement.all().flatMap(({ integrity_check: text }) => text.split('\n'));
  return lines.filter((line) => line !== 'ok' && !line.startsWith('***') && !BROKEN_RULE.test(line));
}

/** For a table without sums. @throws DatabaseDamaged */
export function assertTableSound(database: Database, table: string): void {
  using statement = database.prepare<{ integrity_check: string }, []>(`PRAGMA integrity_check(${table})`);
  const found = statement.get()?.integrity_check;
  if (found !== 'ok') throw new DatabaseDamaged(`the table ${table}: ${found}`);
}

function sizeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true ? stat.size : 0;
}

/** `pagesMax`: the file does not grow further, as on a full disk. */
export function openWriter(path: string, pagesMax: number | undefined): Database {
  const database = new Database(path, { create: true, readwrite: true });
  try {
    database.run(`PRAGMA busy_timeout = ${OPEN_BUSY_TIMEOUT_MS}`);
    database.run(`PRAGMA page_size = ${PAGE_BYTES}`);
    database.run('PRAGMA auto_vacuum = NONE');
    waitWhileBusy(() => database.run('PRAGMA journal_mode = WAL'));
    database.run('PRAGMA synchronous = FULL');
    database.run('PRAGMA fullfsync = ON');
    database.run('PRAGMA checkpoint_fullfsync = ON');
    // A savepoint's undo pages stay in memory.
    database.run('PRAGMA temp_store = MEMORY');
    database.run('PRAGMA cell_size_check = ON');
    database.run('PRAGMA trusted_schema = OFF');
    database.run('PRAGMA cache_size = -32768');
    // The writer makes checkpoints between commits: see write-ahead-log.ts.
    database.run('PRAGMA wal_autocheckpoint = 0');
    // A checkpoint cuts the log file back to this.
    database.run(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`);
    if (pagesMax !== undefined) database.run(`PRAGMA max_page_count = ${pagesMax}`);
    assertPragma(database, 'journal_mode', 'wal');
    assertPragma(database, 'synchronous', 2);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** If two processes open a new database and both turn the log on, SQLite does not wait: it returns SQLITE_BUSY at once. */
function waitWhileBusy(work: () => void): void {
  const deadline = performance.now() + OPEN_BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error;
      Bun.sleepSync(5);
    }
  }
}

/** While serving, group-commit.ts waits for other processes without blocking. */
export function shortenBusyTimeout(database: Database): void {
  // Waiting for another process's lock blocks this process.
  database.run('PRAGMA busy_timeout = 2');
}

/** Never waits for the writer, which is opened before it. `cacheBytes` 0: every read asks the system, so damage is seen at once. */
export function openReader(path: string, cacheBytes: number): Database {
  const database = new Database(path, { readonly: true });
  try {
    database.run(`PRAGMA busy_timeout = ${OPEN_BUSY_TIMEOUT_MS}`);
    database.run('PRAGMA synchronous = FULL');
    database.run('PRAGMA query_only = ON');
    // With it one cell with a wrong size would hide all rows of its page, which their sums prove. Only the writer must not touch such a page.
    database.run('PRAGMA cell_size_check = OFF');
    database.run('PRAGMA trusted_schema = OFF');
    database.run(`PRAGMA cache_size = -${cacheBytes / 1024}`);
    assertPragma(database, 'journal_mode', 'wal');
    assertPragma(database, 'synchronous', 2);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** Drops the connection's pages in memory. The statement acts when it is compiled, so it is never reused. */
export function letGoOfPages(database: Database): void {
  database.run('PRAGMA shrink_memory');
}

function assertPragma(database: Database, name: string, expected: string | number): void {
  using statement = database.prepare<Record<string, unknown>, []>(`PRAGMA ${name}`);
  const row = statement.get();
  assertInvariant(row?.[name] === expected, `every connection has ${name} = ${expected}`);
}
