/** The registry of Apps as one small SQLite database beside the data, shared by servers and command line. */
import { type Database, SQLiteError } from 'bun:sqlite';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { AppRecord, AppStatus, RegistryStore } from '../../auth/registry-store.ts';
import { appFromSql, appKeysToSql } from '../app-rows.ts';
import { codeOf } from '../local-failure.ts';
import { EngineRefused } from '../refused.ts';
import type { Migration } from '../schema-version.ts';
import { assertTablesSound, assertWholePages, openWriter } from './database.ts';
import { migrate } from './migrations.ts';
import schema0001 from './registry-migrations/0001-apps.sql' with { type: 'text' };
import type { SqlRow } from './statements.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

const FILE_NAME = 'registry.db';
/** The data folder holds keys and every tenant's bytes. */
const FOLDER_MODE = 0o700;

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly Migration[] = [{ sql: schema0001, minCompatible: 1 }];

/**
 * Errors that mean damage while the registry is opened. SQLITE_ERROR is one: our statements are right, so the schema is wrong.
 */
const DAMAGE_CODE = /^SQLITE_(?:NOTADB|CORRUPT|ERROR)/;

const SQL = {
  readAll: 'SELECT * FROM apps ORDER BY app_id',
  hasApp: 'SELECT 1 AS one FROM apps WHERE app_id = ?1',
  hasIssuerElsewhere: 'SELECT 1 AS one FROM apps WHERE issuer = ?1 AND app_id <> ?2',
  insert: `INSERT INTO apps (app_id, issuer, audience, status, jwks, jwks_url, algorithms,
             token_lifetime_ms_max, created_at, updated_at)
           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
  replace: `UPDATE apps SET issuer = ?2, audience = ?3, jwks = ?4, jwks_url = ?5, algorithms = ?6,
              token_lifetime_ms_max = ?7, updated_at = ?8
            WHERE app_id = ?1`,
  setStatus: 'UPDATE apps SET status = ?2, updated_at = ?3 WHERE app_id = ?1',
  remove: 'DELETE FROM apps WHERE app_id = ?1',
} as const;

export function hasSqliteRegistry(dataDir: string): boolean {
  return existsSync(join(dataDir, FILE_NAME));
}

/** Opens `dataDir`/registry.db and makes both if they are missing. Throws EngineRefused. */
export function openSqliteRegistryStore(dataDir: string): RegistryStore {
  const path = join(dataDir, FILE_NAME);
  try {
    mkdirSync(dataDir, { recursive: true, mode: FOLDER_MODE });
    return new SqliteRegistryStore(openDatabase(path));
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
    assertTablesSound(database, ['apps']);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

class SqliteRegistryStore implements RegistryStore {
  readonly #database: Database;
  readonly #log: WriteAheadLog;
  /** the last reading and the state of the file it belongs to */
  #known: { readonly dataVersion: unknown; readonly records: readonly AppRecord[] } | undefined;

  constructor(database: Database) {
    this.#database = database;
    this.#log = new WriteAheadLog(database);
  }

  readAll(): readonly AppRecord[] {
    // Changes with every commit of another connection. It is read before the rows, so a commit in between is seen next time.
    const dataVersion = this.#database.query('PRAGMA data_version').values()[0]?.[0];
    if (this.#known !== undefined && this.#known.dataVersion === dataVersion) return this.#known.records;
    const records = this.#database
      .query<SqlRow, []>(SQL.readAll)
      .all()
      .map((row) => appFromSql(row, Error));
    this.#known = { dataVersion, records };
    return records;
  }

  insert(record: AppRecord): 'inserted' | 'app-exists' | 'issuer-taken' {
    return this.#write(() => {
      if (this.#hasApp(record.appId)) return 'app-exists';
      if (this.#isIssuerTaken(record)) return 'issuer-taken';
      this.#database.run(SQL.insert, [
        record.appId,
        record.issuer,
        record.audience,
        record.status,
        ...appKeysToSql(record),
        record.tokenLifetimeMsMax,
        record.createdAt,
        record.updatedAt,
      ]);
      return 'inserted';
    });
  }

  replace(record: AppRecord): 'replaced' | 'app-unknown' | 'issuer-taken' {
    return this.#write(() => {
      if (!this.#hasApp(record.appId)) return 'app-unknown';
      if (this.#isIssuerTaken(record)) return 'issuer-taken';
      this.#database.run(SQL.replace, [
        record.appId,
        record.issuer,
        record.audience,
        ...appKeysToSql(record),
        record.tokenLifetimeMsMax,
        record.updatedAt,
      ]);
      return 'replaced';
    });
  }

  setStatus(appId: string, status: AppStatus, updatedAt: number): boolean {
    return this.#write(() => {
      const hasApp = this.#hasApp(appId);
      if (hasApp) this.#database.run(SQL.setStatus, [appId, status, updatedAt]);
      return hasApp;
    });
  }

  remove(appId: string): boolean {
    return this.#write(() => {
      const hasApp = this.#hasApp(appId);
      if (hasApp) this.#database.run(SQL.remove, [appId]);
      return hasApp;
    });
  }

  close(): void {
    this.#database.close();
  }

  #write<T>(body: () => T): T {
    // `data_version` does not change with our own commits.
    this.#known = undefined;
    try {
      const outcome = this.#database.transaction(body).immediate();
      this.#log.copyBackWhenLong();
      return outcome;
    } catch (error) {
      if (!(error instanceof SQLiteError)) throw error;
      throw new EngineRefused(
        `the registry could not be written (${error.message}); check the disk and the rights on the data folder`,
        { cause: error },
      );
    }
  }

  #hasApp(appId: string): boolean {
    return this.#database.query(SQL.hasApp).get(appId) !== null;
  }

  #isIssuerTaken(record: AppRecord): boolean {
    return this.#database.query(SQL.hasIssuerElsewhere).get(record.issuer, record.appId) !== null;
  }
}
