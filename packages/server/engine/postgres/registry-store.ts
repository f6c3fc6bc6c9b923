/** The registry of Apps in PostgreSQL, shared by every server and by the command line (auth/registry-store.ts). */
import { createHash } from 'node:crypto';
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
import { StoreUnavailable } from '../../core/store-failure.ts';
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
import { isRepeatable, storageError } from './failure.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { hexToBytea, type SqlResult, type SqlRow, type SqlValue } from './wire/sql-values.ts';

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
              a.token_lifetime_ms_max, a.created_at, a.updated_at,
              (SELECT json_agg(q ORDER BY q.space_id) FROM quotas AS q WHERE q.app_id = a.app_id)::text AS quotas,
              (SELECT json_agg(json_build_object('claim', r.claim, 'value', r.value, 'until', r.until) ORDER BY r.claim, r.value)
                FROM revocations AS r WHERE r.app_id = a.app_id)::text AS revocations
            FROM apps_version AS v LEFT JOIN apps AS a ON true
            WHERE v.id = 1 ORDER BY a.app_id`,
  hasApp: 'SELECT count(*) AS count FROM apps WHERE app_id = $1',
  hasIssuer: 'SELECT count(*) AS count FROM apps WHERE issuer_digest = $1',
  insert: `INSERT INTO apps (app_id, issuer, issuer_digest, audience, status, jwks, jwks_url, algorithms,
             token_lifetime_ms_max, created_at, updated_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
  replace: marked(`UPDATE apps SET issuer = $2, issuer_digest = $3, audience = $4, jwks = $5, jwks_url = $6,
                     algorithms = $7, token_lifetime_ms_max = $8, updated_at = $9
                   WHERE app_id = $1`),
  setStatus: 'UPDATE apps SET status = $2, updated_at = $3 WHERE app_id = $1',
  remove: 'DELETE FROM apps WHERE app_id = $1',
  /** $1 App. Every change of what an App has beside its row begins with it: such changes run one after another. */
  lock: `UPDATE apps_version SET version = version + 1 WHERE id = 1`,
  isActive: "SELECT count(*) AS count FROM apps WHERE app_id = $1 AND status = 'active'",
  noteStop: `INSERT INTO app_stops (app_id, stopped_at)
    VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT (app_id) DO UPDATE SET stopped_at = excluded.stopped_at`,
  findStop: 'SELECT stopped_at FROM app_stops WHERE app_id = $1',
  findQuotas: 'SELECT max_bytes, max_nodes, max_commits FROM quotas WHERE app_id = $1 AND space_id = $2',
  countQuotas: "SELECT count(*) AS count FROM quotas WHERE app_id = $1 AND space_id <> ''",
  setQuotas: `INSERT INTO quotas (app_id, space_id, max_bytes, max_nodes, max_commits) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (app_id, space_id) DO UPDATE SET max_bytes = excluded.max_bytes,
      max_nodes = excluded.max_nodes, max_commits = excluded.max_commits`,
  removeQuotas: 'DELETE FROM quotas WHERE app_id = $1 AND space_id = $2',
  hasRevocation:
    'SELECT count(*) AS count FROM revocations WHERE app_id = $1 AND claim = $2 AND value_digest = $3',
  countRevocations: 'SELECT count(*) AS count FROM revocations WHERE app_id = $1',
  setRevocation: `INSERT INTO revocations (app_id, claim, value_digest, value, until) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (app_id, claim, value_digest) DO UPDATE SET until = excluded.until`,
  removeExpired: 'DELETE FROM revocations WHERE app_id = $1 AND until <= $2',
  removeRevocation: 'DELETE FROM revocations WHERE app_id = $1 AND claim = $2 AND value_digest = $3',
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
    const records = rows.filter((row) => row.app_id !== null).map(recordFromSql);
    this.#known = { version, records };
    return records;
  }

  async insert(record: AppRecord): Promise<'inserted' | 'app-exists' | 'issuer-taken'> {
    return this.#again(async () => {
      const isInserted = await this.#transact(async (change) => {
        const { count } = await change(SQL.insert, [
          ...[record.appId, record.issuer, digestOf(record.issuer), record.audience, record.status],
          ...[...appKeysToSql(record), record.tokenLifetimeMsMax, record.createdAt, record.updatedAt],
        ]);
        if (count > 0) await insertLimits(change, record);
        return { value: count > 0, isChanged: count > 0 };
      });
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
    return this.#again(() =>
      this.#transact(async (change) => {
        const isStopped = status !== 'active' && (await countOf(change, SQL.isActive, [appId])) > 0;
        if (isStopped) await change(SQL.noteStop, [appId]);
        const { count } = await change(SQL.setStatus, [appId, status, updatedAt]);
        return { value: count > 0, isChanged: count > 0 };
      }),
    );
  }

  async remove(appId: string): Promise<boolean> {
    return this.#again(() =>
      this.#transact(async (change) => {
        const { count } = await change(SQL.remove, [appId]);
        if (count > 0) await change(SQL.noteStop, [appId]);
        return { value: count > 0, isChanged: count > 0 };
      }),
    );
  }

  async setQuotas(appId: string, spaceId: string | undefined, wanted: QuotaChange): Promise<LimitOutcome> {
    const key = spaceId ?? WHOLE_APP;
    return this.#limit(async (change) => {
      if ((await countOf(change, SQL.hasApp, [appId])) === 0) return 'app-unknown';
      const row = (await change(SQL.findQuotas, [appId, key])).rows[0];
      const values = changeQuotas(quotasFromSql(row), wanted);
      if (values.every((value) => value === null)) await change(SQL.removeQuotas, [appId, key]);
      else if (row === undefined && spaceId !== undefined && (await this.#isFull(change, appId)))
        return 'too-many';
      else await change(SQL.setQuotas, [appId, key, ...values]);
      return 'changed';
    });
  }

  async #isFull(change: Change, appId: string): Promise<boolean> {
    return (await countOf(change, SQL.countQuotas, [appId])) >= SPACE_QUOTAS_MAX;
  }

  async revoke(appId: string, { claim, value, until }: Revocation, now: number): Promise<LimitOutcome> {
    return this.#limit(async (change) => {
      if ((await countOf(change, SQL.hasApp, [appId])) === 0) return 'app-unknown';
      await change(SQL.removeExpired, [appId, now]);
      const isNew = (await countOf(change, SQL.hasRevocation, [appId, claim, digestOf(value)])) === 0;
      if (isNew && (await countOf(change, SQL.countRevocations, [appId])) >= REVOCATIONS_MAX)
        return 'too-many';
      await change(SQL.setRevocation, [appId, claim, digestOf(value), value, until]);
      return 'changed';
    });
  }

  async liftRevocation(appId: string, claim: RevokedClaim, value: string): Promise<boolean> {
    return this.#again(() =>
      this.#transact(async (change) => {
        const { count } = await change(SQL.removeRevocation, [appId, claim, digestOf(value)]);
        return { value: count > 0, isChanged: count > 0 };
      }),
    );
  }

  async findStoppedAt(appId: string): Promise<number | undefined> {
    const { rows } = await this.#pool.read('reading the registry', SQL.findStop, [appId]);
    return rows[0]?.stopped_at as number | undefined;
  }

  #limit(work: (change: Change) => Promise<LimitOutcome>): Promise<LimitOutcome> {
    return this.#again(() =>
      this.#transact(async (change) => {
        const value = await work(change);
        return { value, isChanged: value === 'changed' };
      }),
    );
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

  /** One transaction that moves the version on. Leaves nothing if the work says that it changed nothing, or fails. */
  async #transact<T>(
    work: (change: Change) => Promise<{ readonly value: T; readonly isChanged: boolean }>,
  ): Promise<T> {
    return this.#pool.lend(async (connection) => {
      await connection.query('BEGIN', []);
      try {
        await connection.query(SQL.lock, []);
        const { value, isChanged } = await work((sql, values) => connection.query(sql, values));
        await connection.query(isChanged ? 'COMMIT' : 'ROLLBACK', []);
        return value;
      } catch (error) {
        await connection.rollback();
        throw error;
      }
    });
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

/** Sends a statement of a transaction. */
type Change = (sql: string, values: readonly SqlValue[]) => Promise<SqlResult>;

async function countOf(change: Change, sql: string, key: readonly SqlValue[]): Promise<number> {
  return (await change(sql, key)).rows[0]?.count as number;
}

async function insertLimits(change: Change, record: AppRecord): Promise<void> {
  const { appId, status, revocations } = record;
  if (status !== 'active') await change(SQL.noteStop, [appId]);
  for (const each of quotaRowsOf(record)) {
    await change(SQL.setQuotas, [appId, each.spaceId, ...quotaValues(each)]);
  }
  for (const { claim, value, until } of revocations) {
    await change(SQL.setRevocation, [appId, claim, digestOf(value), value, until]);
  }
}

function recordFromSql(row: SqlRow): AppRecord {
  const [quotas, revocations] = [row.quotas, row.revocations].map((text) =>
    text === null ? [] : (JSON.parse(text as string) as SqlRow[]),
  ) as [SqlRow[], SqlRow[]];
  return appFromSql(row, limitsFromSql(quotas, revocations, StoreUnavailable), StoreUnavailable);
}

/** SHA-256, for an index. */
function digestOf(text: string): string {
  return hexToBytea(createHash('sha256').update(text).digest('hex'));
}
