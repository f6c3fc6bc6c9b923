/** The registry of Apps in PostgreSQL, shared by every server and by the command line (auth/registry-store.ts). */
import { createHash } from 'node:crypto';
import type { AppRecord, AppStatus, RegistryStore } from '../../auth/registry-store.ts';
import { StoreUnavailable } from '../../core/ports.ts';
import { appFromSql, appKeysToSql } from '../app-rows.ts';
import { codeOf, isRepeatable, storageError } from './failure.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { hexToBytea, type SqlValue } from './wire/sql-values.ts';

const UNIQUE_VIOLATION = '23505';
/** Changes are rare and made by people, so two of them conflict a few times at most. */
const ATTEMPTS_MAX = 20;
const PAUSE_MS_MAX = 50;

/** The change of an App and of the version are one statement, so they are one transaction. */
const marked = (change: string): string =>
  `WITH changed AS (${change} RETURNING app_id),
     marked AS (UPDATE apps_version SET version = version + 1 WHERE EXISTS (SELECT FROM changed) RETURNING version)
   SELECT (SELECT count(*) FROM changed) AS changed, (SELECT count(*) FROM marked) AS marked`;

const SQL = {
  readVersion: 'SELECT version FROM apps_version WHERE id = 1',
  /** Returns one row without an App if there are none, so that the version always comes with its Apps. */
  readAll: `SELECT v.version, a.app_id, a.issuer, a.audience, a.status, a.jwks, a.jwks_url, a.algorithms,
              a.token_lifetime_ms_max, a.created_at, a.updated_at
            FROM apps_version AS v LEFT JOIN apps AS a ON true
            WHERE v.id = 1 ORDER BY a.app_id`,
  hasApp: 'SELECT count(*) AS count FROM apps WHERE app_id = $1',
  hasIssuer: 'SELECT count(*) AS count FROM apps WHERE issuer_digest = $1',
  insert:
    marked(`INSERT INTO apps (app_id, issuer, issuer_digest, audience, status, jwks, jwks_url, algorithms,
                    token_lifetime_ms_max, created_at, updated_at)
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`),
  replace: marked(`UPDATE apps SET issuer = $2, issuer_digest = $3, audience = $4, jwks = $5, jwks_url = $6,
                     algorithms = $7, token_lifetime_ms_max = $8, updated_at = $9
                   WHERE app_id = $1`),
  setStatus: marked('UPDATE apps SET status = $2, updated_at = $3 WHERE app_id = $1'),
  remove: marked('DELETE FROM apps WHERE app_id = $1'),
} as const;

/** On a migrated database. The caller closes the pool. The verbs throw StoreUnavailable. */
export class PostgresRegistryStore implements RegistryStore {
  readonly #pool: PostgresPool;
  #known: { readonly version: number; readonly records: readonly AppRecord[] } | undefined;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async readAll(): Promise<readonly AppRecord[]> {
    const known = this.#known;
    if (known !== undefined) {
      const { rows } = await this.#pool.read('reading the registry', SQL.readVersion, []);
      if (rows[0]?.version === known.version) return known.records;
    }
    const { rows } = await this.#pool.read('reading the registry', SQL.readAll, []);
    const version = rows[0]?.version;
    if (typeof version !== 'number')
      throw new StoreUnavailable('the registry has lost its version row: restore it');
    const records = rows.filter((row) => row.app_id !== null).map((row) => appFromSql(row, StoreUnavailable));
    this.#known = { version, records };
    return records;
  }

  async insert(record: AppRecord): Promise<'inserted' | 'app-exists' | 'issuer-taken'> {
    return this.#again(async () => {
      const isInserted = await this.#change(SQL.insert, [
        ...[record.appId, record.issuer, digestOf(record.issuer), record.audience, record.status],
        ...[...appKeysToSql(record), record.tokenLifetimeMsMax, record.createdAt, record.updatedAt],
      ]);
      if (isInserted) return 'inserted';
      if (await this.#count(SQL.hasApp, record.appId)) return 'app-exists';
      if (await this.#count(SQL.hasIssuer, digestOf(record.issuer))) return 'issuer-taken';
      // The App that stood in the way was removed meanwhile.
      return undefined;
    });
  }

  async replace(record: AppRecord): Promise<'replaced' | 'app-unknown' | 'issuer-taken'> {
    return this.#again(async () => {
      try {
        const isReplaced = await this.#change(SQL.replace, [
          ...[record.appId, record.issuer, digestOf(record.issuer), record.audience],
          ...[...appKeysToSql(record), record.tokenLifetimeMsMax, record.updatedAt],
        ]);
        return isReplaced ? 'replaced' : 'app-unknown';
      } catch (error) {
        if (codeOf(error) === UNIQUE_VIOLATION) return 'issuer-taken';
        throw error;
      }
    });
  }

  async setStatus(appId: string, status: AppStatus, updatedAt: number): Promise<boolean> {
    return this.#again(() => this.#change(SQL.setStatus, [appId, status, updatedAt]));
  }

  async remove(appId: string): Promise<boolean> {
    return this.#again(() => this.#change(SQL.remove, [appId]));
  }

  close(): void {
    this.#known = undefined;
  }

  /** Runs a change again if it conflicted with another one, or if it could not decide (`undefined`). */
  async #again<T>(change: () => Promise<T | undefined>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const outcome = await change();
        if (outcome !== undefined) return outcome;
        if (attempt === ATTEMPTS_MAX) throw new StoreUnavailable('the registry changes too fast: try again');
      } catch (error) {
        if (!isRepeatable(error) || attempt === ATTEMPTS_MAX)
          throw storageError(error, 'changing the registry');
      }
      await Bun.sleep(PAUSE_MS_MAX * Math.random());
    }
  }

  async #change(statement: string, parameters: readonly SqlValue[]): Promise<boolean> {
    const { rows } = await this.#pool.lend((connection) => connection.query(statement, parameters));
    return rows[0]?.changed === 1;
  }

  async #count(statement: string, key: string): Promise<boolean> {
    const { rows } = await this.#pool.lend((connection) => connection.query(statement, [key]));
    return rows[0]?.count === 1;
  }
}

function digestOf(issuer: string): string {
  return hexToBytea(createHash('sha256').update(issuer).digest('hex'));
}
