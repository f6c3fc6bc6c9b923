/** Opens SQLite connections with the settings durability rests on, and proves that they took. */
import { Database } from 'bun:sqlite';
import { statSync } from 'node:fs';
import { assertInvariant } from '../../core/invariant.ts';
import { isBusy } from '../local-failure.ts';

const PAGE_BYTES = 4096;
const WRITER_CACHE_BYTES = 32 * 1024 * 1024;
export const READER_CACHE_BYTES = 16 * 1024 * 1024;
/** ms SQLite itself sleeps for another process's lock before it says SQLITE_BUSY; short, for it blocks this process */
const BUSY_TIMEOUT_MS = 2;
/** ms to wait for another process's lock while opening */
const OPEN_BUSY_TIMEOUT_MS = 10_000;
const OPEN_BUSY_RETRY_MS = 5;
/** bytes the log file is cut back to after a checkpoint */
const LOG_BYTES_KEPT = 64 * 1024 * 1024;

/** What is in the database is not what was written. The code is SQLite's own for what it finds by itself. */
export class DatabaseDamaged extends Error {
  override readonly name = 'DatabaseDamaged';
  readonly code = 'SQLITE_CORRUPT';
}

/**
 * SQLite reads what is missing of a last page as zeros, and a file of less than one as an empty database. Only a crash leaves part of
 * a page, and with it the log that the rest of it is in.
 * @throws DatabaseDamaged
 */
export function assertWholePages(path: string): void {
  const bytes = sizeOf(path);
  if (bytes % PAGE_BYTES === 0 || sizeOf(`${path}-wal`) > 0 || sizeOf(`${path}-journal`) > 0) return;
  throw new DatabaseDamaged(`${path} is cut off after ${bytes} bytes`);
}

/**
 * A damaged key would make what a row is of look as if it had never been. Where much hangs on few rows their tables are held
 * against their indexes and rules before anything is asked of them.
 * @throws DatabaseDamaged
 */
export function assertTablesSound(database: Database, tables: readonly string[]): void {
  for (const table of tables) {
    using statement = database.prepare<{ integrity_check: string }, []>(`PRAGMA integrity_check(${table})`);
    const found = statement.get()?.integrity_check;
    if (found !== 'ok') throw new DatabaseDamaged(`the table ${table}: ${found}`);
  }
}

function sizeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true ? stat.size : 0;
}

/** `pagesMax`: the file grows no further, as on a full disk. */
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
    database.run(`PRAGMA cache_size = -${WRITER_CACHE_BYTES / 1024}`);
    // Whoever writes does it, between commits: see write-ahead-log.ts.
    database.run('PRAGMA wal_autocheckpoint = 0');
    database.run(`PRAGMA journal_size_limit = ${LOG_BYTES_KEPT}`);
    if (pagesMax !== undefined) database.run(`PRAGMA max_page_count = ${pagesMax}`);
    assertPragma(database, 'journal_mode', 'wal');
    assertPragma(database, 'synchronous', 2);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** SQLite does not wait by itself where two first openers both turn the log on: it answers SQLITE_BUSY at once. */
function waitWhileBusy(work: () => void): void {
  const deadline = performance.now() + OPEN_BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error;
      Bun.sleepSync(OPEN_BUSY_RETRY_MS);
    }
  }
}

/** Waiting for other processes while serving is done without blocking: see group-commit.ts. */
export function shortenBusyTimeout(database: Database): void {
  database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
}

/**
 * Never waits for the writer, cannot write. The writer has been opened before, so the file and its log exist. `cacheBytes`
 * 0: every read asks the operating system, so damage on the disk is seen as soon as it is there.
 */
export function openReader(path: string, cacheBytes: number): Database {
  const database = new Database(path, { readonly: true });
  try {
    database.run(`PRAGMA busy_timeout = ${OPEN_BUSY_TIMEOUT_MS}`);
    database.run('PRAGMA synchronous = FULL');
    database.run('PRAGMA query_only = ON');
    database.run('PRAGMA cell_size_check = ON');
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

/** What the connection holds in memory goes, so that the disk answers. Compiled anew each time: it acts when it is compiled. */
export function letGoOfPages(database: Database): void {
  database.run('PRAGMA shrink_memory');
}

function assertPragma(database: Database, name: string, expected: string | number): void {
  using statement = database.prepare<Record<string, unknown>, []>(`PRAGMA ${name}`);
  const row = statement.get();
  assertInvariant(row?.[name] === expected, `every connection has ${name} = ${expected}`);
}
