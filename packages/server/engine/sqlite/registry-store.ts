/** The registry of Apps as one small SQLite database beside the data, shared by servers and command line. */

import { type Database, SQLiteError } from 'bun:sqlite';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import {
  type AppRecord,
  type AppStatus,
  type LimitOutcome,
  type QuotaChange,
  REVOCATIONS_MAX,
  type RegistryStore,
  type Revocation,
  type RevokedClaim,
  SPACE_QUOTAS_MAX,
} from '../../auth/registry-store.ts';
import { codeOf } from '../../error-code.ts';
import {
  appFromSql,
  appKeysToSql,
  changeQuotas,
  limitsFromSql,
  quotaRowsOf,
  quotasFromSql,
  quotaValues,
  WHOLE_APP,
} from '../app-rows.ts';
import { EngineRefused } from '../refused.ts';
import type { Migration } from '../schema-version.ts';
import { assertTableSound, assertWholePages, openWriter } from './database.ts';
import { migrate } from './migrations.ts';
import schema0001 from './registry-migrations/0001-apps.sql' with { type: 'text' };
import schema0002 from './registry-migrations/0002-limits.sql' with { type: 'text' };
import schema0003 from './registry-migrations/0003-commit-quotas.sql' with { type: 'text' };
import type { SqlRow } from './statements.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

export const REGISTRY_FILE = 'registry.db';

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly Migration[] = [
  { sql: schema0001, minCompatible: 1 },
  { sql: schema0002, minCompatible: 1 },
  { sql: schema0003, minCompatible: 1 },
];

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
  /** for an App that a change of status stops */
  isActive: "SELECT 1 AS one FROM apps WHERE app_id = ?1 AND status = 'active'",
  noteStop: `INSERT INTO app_stops (app_id, stopped_at) VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER))
             ON CONFLICT (app_id) DO UPDATE SET stopped_at = excluded.stopped_at`,
  findStop: 'SELECT stopped_at FROM app_stops WHERE app_id = ?1',
  readQuotas:
    'SELECT app_id, space_id, max_bytes, max_nodes, max_commits FROM quotas ORDER BY app_id, space_id',
  findQuotas: 'SELECT max_bytes, max_nodes, max_commits FROM quotas WHERE app_id = ?1 AND space_id = ?2',
  countQuotas: "SELECT count(*) AS count FROM quotas WHERE app_id = ?1 AND space_id <> ''",
  setQuotas: `INSERT INTO quotas (app_id, space_id, max_bytes, max_nodes, max_commits) VALUES (?1, ?2, ?3, ?4, ?5)
              ON CONFLICT (app_id, space_id) DO UPDATE SET max_bytes = excluded.max_bytes,
                max_nodes = excluded.max_nodes, max_commits = excluded.max_commits`,
  removeQuotas: 'DELETE FROM quotas WHERE app_id = ?1 AND space_id = ?2',
  readRevocations: 'SELECT app_id, claim, value, until FROM revocations ORDER BY app_id, claim, value',
  hasRevocation: 'SELECT 1 AS one FROM revocations WHERE app_id = ?1 AND claim = ?2 AND value = ?3',
  countRevocations: 'SELECT count(*) AS count FROM revocations WHERE app_id = ?1',
  setRevocation: `INSERT INTO revocations (app_id, claim, value, until) VALUES (?1, ?2, ?3, ?4)
                  ON CONFLICT (app_id, claim, value) DO UPDATE SET until = excluded.until`,
  removeExpired: 'DELETE FROM revocations WHERE app_id = ?1 AND until <= ?2',
  removeRevocation: 'DELETE FROM revocations WHERE app_id = ?1 AND claim = ?2 AND value = ?3',
} as const;

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
    assertTableSound(database, 'apps');
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
    const quotas = this.#readByApp(SQL.readQuotas);
    const revocations = this.#readByApp(SQL.readRevocations);
    const records = this.#database
      .query<SqlRow, []>(SQL.readAll)
      .all()
      .map((row) => {
        const appId = row.app_id as string;
        const limits = limitsFromSql(quotas.get(appId) ?? [], revocations.get(appId) ?? [], Error);
        return appFromSql(row, limits, Error);
      });
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
      this.#insertLimits(record);
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
      if (status !== 'active' && this.#isThere(SQL.isActive, appId))
        this.#database.run(SQL.noteStop, [appId]);
      if (hasApp) this.#database.run(SQL.setStatus, [appId, status, updatedAt]);
      return hasApp;
    });
  }

  remove(appId: string): boolean {
    return this.#write(() => {
      const hasApp = this.#hasApp(appId);
      if (!hasApp) return false;
      for (const sql of [SQL.noteStop, SQL.remove]) this.#database.run(sql, [appId]);
      return true;
    });
  }

  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): LimitOutcome {
    const key = spaceId ?? WHOLE_APP;
    return this.#write(() => {
      if (!this.#hasApp(appId)) return 'app-unknown';
      const row = this.#database.query<SqlRow, string[]>(SQL.findQuotas).get(appId, key);
      const isFull = spaceId !== undefined && this.#count(SQL.countQuotas, appId) >= SPACE_QUOTAS_MAX;
      const values = changeQuotas(quotasFromSql(row), change);
      if (values.every((value) => value === null)) this.#database.run(SQL.removeQuotas, [appId, key]);
      else if (row === null && isFull) return 'too-many';
      else this.#database.run(SQL.setQuotas, [appId, key, ...values]);
      return 'changed';
    });
  }

  revoke(appId: string, { claim, value, until }: Revocation, now: number): LimitOutcome {
    return this.#write(() => {
      if (!this.#hasApp(appId)) return 'app-unknown';
      this.#database.run(SQL.removeExpired, [appId, now]);
      const isNew = !this.#isThere(SQL.hasRevocation, appId, claim, value);
      if (isNew && this.#count(SQL.countRevocations, appId) >= REVOCATIONS_MAX) return 'too-many';
      this.#database.run(SQL.setRevocation, [appId, claim, value, until]);
      return 'changed';
    });
  }

  liftRevocation(appId: string, claim: RevokedClaim, value: string): boolean {
    return this.#write(() => this.#database.run(SQL.removeRevocation, [appId, claim, value]).changes > 0);
  }

  findStoppedAt(appId: string): number | undefined {
    const row = this.#database.query<SqlRow, string[]>(SQL.findStop).get(appId);
    return row?.stopped_at as number | undefined;
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
    return this.#isThere(SQL.hasApp, appId);
  }

  #isThere(sql: string, ...key: string[]): boolean {
    return this.#database.query<SqlRow, string[]>(sql).get(...key) !== null;
  }

  #count(sql: string, appId: string): number {
    return this.#database.query<SqlRow, string[]>(sql).get(appId)?.count as number;
  }

  #readByApp(sql: string): ReadonlyMap<string, SqlRow[]> {
    return Map.groupBy(this.#database.query<SqlRow, []>(sql).all(), (row) => row.app_id as string);
  }

  #insertLimits(record: AppRecord): void {
    const { appId, status, quotas, spaceQuotas, revocations } = record;
    if (status !== 'active') this.#database.run(SQL.noteStop, [appId]);
    for (const each of quotaRowsOf({ quotas, spaceQuotas })) {
      this.#database.run(SQL.setQuotas, [appId, each.spaceId, ...quotaValues(each)]);
    }
    for (const { claim, value, until } of revocations) {
      this.#database.run(SQL.setRevocation, [appId, claim, value, until]);
    }
  }

  #isIssuerTaken(record: AppRecord): boolean {
    return this.#database.query(SQL.hasIssuerElsewhere).get(record.issuer, record.appId) !== null;
  }
}
