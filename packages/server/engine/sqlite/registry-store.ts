/** The registry of Apps as one small SQLite database beside the data, shared by servers and command line. */

import { type Database, SQLiteError, type SQLQueryBindings } from 'bun:sqlite';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import type { RegistryStore } from '../../auth/registry-store.ts';
import { codeOf } from '../../error-code.ts';
import { EngineRefused } from '../refused.ts';
import { FIND_UNSUMMED, RowsRegistry } from '../rows/registry.ts';
import { type RowWork, runNow } from '../rows/work.ts';
import type { Migration } from '../schema-version.ts';
import { assertTableSound, assertWholePages, openWriter } from './database.ts';
import { migrate } from './migrations.ts';
import schema0001 from './registry-migrations/0001-apps.sql' with { type: 'text' };
import schema0002 from './registry-migrations/0002-limits.sql' with { type: 'text' };
import schema0003 from './registry-migrations/0003-commit-quotas.sql' with { type: 'text' };
import schema0004 from './registry-migrations/0004-sums.sql' with { type: 'text' };
import type { SqlRow } from './statements.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

export const REGISTRY_FILE = 'registry.db';

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly Migration[] = [
  { sql: schema0001, minCompatible: 1 },
  { sql: schema0002, minCompatible: 1 },
  { sql: schema0003, minCompatible: 1 },
  // An older build would leave the sums as they were.
  { sql: schema0004, minCompatible: 4 },
];

/** Errors that mean damage when the registry is opened. SQLITE_ERROR is one: our statements are right, so the schema is wrong. */
const DAMAGE_CODE = /^SQLITE_(?:NOTADB|CORRUPT|ERROR)/;

const WORDS = {
  readVersion: 'SELECT data_version AS version FROM pragma_data_version',
  now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
};

export function hasSqliteRegistry(dataDir: string): boolean {
  return existsSync(join(dataDir, REGISTRY_FILE));
}

/** Opens `dataDir`/registry.db and makes both if they are missing. Throws EngineRefused. */
export function openSqliteRegistryStore(dataDir: string): RegistryStore {
  const path = join(dataDir, REGISTRY_FILE);
  try {
    mkdirSync(dataDir, { recursive: true, mode: PRIVATE_FOLDER_MODE });
    // SQLite gives its other files the mode of this one.
    closeSync(openSync(path, 'a', PRIVATE_FILE_MODE));
    return registryOf(openDatabase(path));
  } catch (error) {
    if (error instanceof EngineRefused) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    const advice = DAMAGE_CODE.test(codeOf(error) ?? '')
      ? 'check the disk and restore a backup of the folder'
      : 'check --data and the rights on that folder';
    throw new EngineRefused(`the registry ${path} cannot be opened (${reason}); ${advice}`, {
      cause: error,
    });
  }
}

function openDatabase(path: string): Database {
  assertWholePages(path);
  const database = openWriter(path, undefined);
  try {
    migrate(database, path, MIGRATIONS);
    assertTableSound(database, 'apps');
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function registryOf(database: Database): RegistryStore {
  const log = new WriteAheadLog(database);
  const read = <T>(work: RowWork<T>): T =>
    runNow(work, (sql, values) =>
      database.query<SqlRow, SQLQueryBindings[]>(sql.replaceAll('$', '?')).all(...values),
    );
  const registry = new RowsRegistry({
    ...{ words: WORDS, Failure: Error, read, close: () => database.close() },
    transact(work) {
      try {
        const outcome = database.transaction(() => read(work())).immediate();
        log.copyBackWhenLong();
        return outcome;
      } catch (error) {
        if (!(error instanceof SQLiteError)) throw error;
        throw new EngineRefused(
          `the registry could not be written (${error.message}); check the disk and the rights on the data folder`,
          { cause: error },
        );
      }
    },
  });
  if (database.query(FIND_UNSUMMED).get() !== null) registry.seal();
  return registry;
}
