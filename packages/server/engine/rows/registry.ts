/** The registry of Apps (auth/registry-store.ts): its statements and its decisions, over the rows of either engine. */
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
import type { Awaitable } from '../../core/awaitable.ts';
import {
  appFromSql,
  appKeysToSql,
  appSum,
  assertProven,
  changeQuotas,
  quotaRowsOf,
  quotasFromSql,
  quotaValues,
  WHOLE_APP,
} from './app-rows.ts';
import { ask, type RowWork, type SqlRow } from './work.ts';

/** An engine's own words. */
interface RegistryWords {
  /** selects `version`: another one once another process has changed the registry */
  readonly readVersion: string;
  /** ms by the store's clock */
  readonly now: string;
  /** The digest of a long text, for an engine whose indexes take no long text. */
  readonly digestOf?: (text: string) => string;
}

export interface RegistryRows {
  readonly words: RegistryWords;
  read<T>(work: RowWork<T>): Awaitable<T>;
  /** Runs the work alone, in one transaction. Leaves nothing if it fails, or if `isDone` says that nothing was done. */
  transact<T>(work: () => RowWork<T>, isDone: (outcome: T) => boolean): Awaitable<T>;
  /** of a row that no App can have */
  readonly Failure: new (
    message: string,
  ) => Error;
  close(): void;
}

const NOTHING_DONE: readonly unknown[] = ['app-exists', 'app-unknown', 'issuer-taken', 'too-many', false];
const isDone = (outcome: unknown): boolean => !NOTHING_DONE.includes(outcome);

/** If it finds any, `seal` is to be called. */
export const FIND_UNSUMMED = 'SELECT app_id FROM apps WHERE record_sum IS NULL';
const OF_APP = 'WHERE CAST($1 AS text) IS NULL OR app_id = $1';

/** Long texts have a digest in a column of its own, `…_digest`, by which they are found. */
function statementsOf({ readVersion, now, digestOf }: RegistryWords) {
  const keyOf = (column: string): string => (digestOf ? `${column}_digest` : column);
  const keyValue = (parameter: string): string => (digestOf ? digestOf(parameter) : parameter);
  const bothColumns = (column: string): string => (digestOf ? `${column}, ${keyOf(column)}` : column);
  const bothValues = (parameter: string): string =>
    digestOf ? `${parameter}, ${digestOf(parameter)}` : parameter;
  const revoked = `app_id = $1 AND claim = $2 AND ${keyOf('value')} = ${keyValue('$3')}`;
  return {
    readVersion,
    /** $1 App; null: all */
    readApps: `SELECT * FROM apps ${OF_APP} ORDER BY app_id`,
    setSum: 'UPDATE apps SET record_sum = $2 WHERE app_id = $1',
    hasIssuerElsewhere: `SELECT 1 AS one FROM apps WHERE ${keyOf('issuer')} = ${keyValue('$1')} AND app_id <> $2`,
    insert: `INSERT INTO apps (app_id, ${bothColumns('issuer')}, audience, status, jwks, jwks_url, algorithms,
        token_lifetime_ms_max, created_at, updated_at)
      VALUES ($1, ${bothValues('$2')}, $3, $4, $5, $6, $7, $8, $9, $10)`,
    replace: `UPDATE apps SET (${bothColumns('issuer')}, audience, jwks, jwks_url, algorithms, token_lifetime_ms_max, updated_at)
        = (${bothValues('$2')}, $3, $4, $5, $6, $7, $8) WHERE app_id = $1`,
    setStatus: 'UPDATE apps SET status = $2, updated_at = $3 WHERE app_id = $1',
    remove: 'DELETE FROM apps WHERE app_id = $1',
    noteStop: `INSERT INTO app_stops (app_id, stopped_at) VALUES ($1, ${now})
      ON CONFLICT (app_id) DO UPDATE SET stopped_at = excluded.stopped_at`,
    findStop: 'SELECT stopped_at FROM app_stops WHERE app_id = $1',
    readQuotas: `SELECT app_id, space_id, max_bytes, max_nodes, max_commits FROM quotas ${OF_APP} ORDER BY app_id, space_id`,
    removeAllQuotas: 'DELETE FROM quotas WHERE app_id = $1',
    findQuotas: 'SELECT max_bytes, max_nodes, max_commits FROM quotas WHERE app_id = $1 AND space_id = $2',
    countQuotas: "SELECT count(*) AS count FROM quotas WHERE app_id = $1 AND space_id <> ''",
    setQuotas: `INSERT INTO quotas (app_id, space_id, max_bytes, max_nodes, max_commits) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (app_id, space_id) DO UPDATE SET max_bytes = excluded.max_bytes,
        max_nodes = excluded.max_nodes, max_commits = excluded.max_commits`,
    removeQuotas: 'DELETE FROM quotas WHERE app_id = $1 AND space_id = $2',
    readRevocations: `SELECT app_id, claim, value, until FROM revocations ${OF_APP} ORDER BY app_id, claim, value`,
    removeAllRevocations: 'DELETE FROM revocations WHERE app_id = $1',
    hasRevocation: `SELECT 1 AS one FROM revocations WHERE ${revoked}`,
    countRevocations: 'SELECT count(*) AS count FROM revocations WHERE app_id = $1',
    setRevocation: `INSERT INTO revocations (app_id, claim, ${bothColumns('value')}, until) VALUES ($1, $2, ${bothValues('$3')}, $4)
      ON CONFLICT (app_id, claim, ${keyOf('value')}) DO UPDATE SET until = excluded.until`,
    removeExpired: 'DELETE FROM revocations WHERE app_id = $1 AND until <= $2',
    removeRevocation: `DELETE FROM revocations WHERE ${revoked} RETURNING 1 AS one`,
  } as const;
}

export class RowsRegistry implements RegistryStore {
  readonly #rows: RegistryRows;
  readonly #sql: ReturnType<typeof statementsOf>;
  /** the last reading and the version that it belongs to */
  #known: { readonly version: unknown; readonly records: readonly AppRecord[] } | undefined;

  constructor(rows: RegistryRows) {
    this.#rows = rows;
    this.#sql = statementsOf(rows.words);
  }

  readAll(): Awaitable<readonly AppRecord[]> {
    return this.#rows.read(this.#readAll());
  }

  /** Reads again what another process changed meanwhile, so that no App comes with the limits of another version. */
  *#readAll(): RowWork<readonly AppRecord[]> {
    const { Failure } = this.#rows;
    // Changes are rare and made by people, so two readings are enough nearly always.
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const version = (yield* ask(this.#sql.readVersion))[0]?.version;
      if (version === undefined) throw new Failure('the registry has lost its version row: restore it');
      if (this.#known?.version === version) return this.#known.records;
      const records = yield* this.#readApps(null);
      if ((yield* ask(this.#sql.readVersion))[0]?.version !== version) continue;
      this.#known = { version, records };
      return records;
    }
    throw new Failure('the registry changes too fast: try again');
  }

  *#readApps(appId: string | null): RowWork<AppRecord[]> {
    const apps = yield* ask(this.#sql.readApps, appId);
    const quotas = byApp(yield* ask(this.#sql.readQuotas, appId));
    const revocations = byApp(yield* ask(this.#sql.readRevocations, appId));
    return apps.map((row) =>
      appFromSql(row, quotas.get(row.app_id) ?? [], revocations.get(row.app_id) ?? []),
    );
  }

  /** Apps that are older than sums get theirs. */
  seal(): Awaitable<boolean> {
    return this.#rows.transact(() => this.#sealUnsummed(), isDone);
  }

  *#sealUnsummed(): RowWork<boolean> {
    const found = yield* ask(FIND_UNSUMMED);
    for (const { app_id } of found) yield* this.#seal(app_id as string);
    return found.length > 0;
  }

  /** The sum of what the App is now. */
  *#seal(appId: string): RowWork<void> {
    yield* ask(this.#sql.setSum, appId, null);
    const [app] = yield* this.#readApps(appId);
    if (app !== undefined && app.status !== 'damaged') yield* ask(this.#sql.setSum, appId, appSum(app));
  }

  insert(record: AppRecord): Awaitable<'inserted' | 'app-exists' | 'issuer-taken'> {
    const { appId, issuer, audience, status, revocations } = record;
    const sql = this.#sql;
    return this.#write(appId, function* (app) {
      if (app !== undefined) return 'app-exists';
      if (yield* isThere(sql.hasIssuerElsewhere, issuer, appId)) return 'issuer-taken';
      const times = [record.tokenLifetimeMsMax, record.createdAt, record.updatedAt];
      yield* ask(sql.insert, appId, issuer, audience, status, ...appKeysToSql(record), ...times);
      if (status !== 'active') yield* ask(sql.noteStop, appId);
      for (const each of quotaRowsOf(record))
        yield* ask(sql.setQuotas, appId, each.spaceId, ...quotaValues(each));
      for (const { claim, value, until } of revocations)
        yield* ask(sql.setRevocation, appId, claim, value, until);
      return 'inserted';
    });
  }

  replace(record: AppRecord): Awaitable<'replaced' | 'app-unknown' | 'issuer-taken'> {
    const { appId, issuer, audience } = record;
    const sql = this.#sql;
    return this.#write(appId, function* (app) {
      if (app === undefined) return 'app-unknown';
      if (yield* isThere(sql.hasIssuerElsewhere, issuer, appId)) return 'issuer-taken';
      const times = [record.tokenLifetimeMsMax, record.updatedAt];
      if (app.status === 'damaged') {
        // Servers may still have it as active.
        yield* ask(sql.noteStop, appId);
        yield* ask(sql.setStatus, appId, 'suspended', record.updatedAt);
        for (const each of [sql.removeAllQuotas, sql.removeAllRevocations]) yield* ask(each, appId);
      }
      yield* ask(sql.replace, appId, issuer, audience, ...appKeysToSql(record), ...times);
      return 'replaced';
    });
  }

  setStatus(appId: string, status: AppStatus, updatedAt: number): Awaitable<boolean> {
    const sql = this.#sql;
    return this.#change(appId, function* (app) {
      if (app === undefined) return false;
      if (status !== 'active' && app.status === 'active') yield* ask(sql.noteStop, appId);
      yield* ask(sql.setStatus, appId, status, updatedAt);
      return true;
    });
  }

  remove(appId: string): Awaitable<boolean> {
    const sql = this.#sql;
    return this.#write(appId, function* (app) {
      if (app === undefined) return false;
      yield* ask(sql.noteStop, appId);
      yield* ask(sql.remove, appId);
      return true;
    });
  }

  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): Awaitable<LimitOutcome> {
    const sql = this.#sql;
    const key = spaceId ?? WHOLE_APP;
    return this.#change(appId, function* (app) {
      if (app === undefined) return 'app-unknown';
      const [row] = yield* ask(sql.findQuotas, appId, key);
      const values = changeQuotas(quotasFromSql(row), change);
      if (values.every((value) => value === null)) {
        yield* ask(sql.removeQuotas, appId, key);
        return 'changed';
      }
      const isNew = row === undefined && spaceId !== undefined;
      if (isNew && (yield* countOf(sql.countQuotas, appId)) >= SPACE_QUOTAS_MAX) return 'too-many';
      yield* ask(sql.setQuotas, appId, key, ...values);
      return 'changed';
    });
  }

  revoke(appId: string, { claim, value, until }: Revocation, now: number): Awaitable<LimitOutcome> {
    const sql = this.#sql;
    return this.#change(appId, function* (app) {
      if (app === undefined) return 'app-unknown';
      yield* ask(sql.removeExpired, appId, now);
      const isNew = !(yield* isThere(sql.hasRevocation, appId, claim, value));
      if (isNew && (yield* countOf(sql.countRevocations, appId)) >= REVOCATIONS_MAX) return 'too-many';
      yield* ask(sql.setRevocation, appId, claim, value, until);
      return 'changed';
    });
  }

  liftRevocation(appId: string, claim: RevokedClaim, value: string): Awaitable<boolean> {
    return this.#change(appId, () => isThere(this.#sql.removeRevocation, appId, claim, value));
  }

  findStoppedAt(appId: string): Awaitable<number | undefined> {
    return this.#rows.read(this.#findStoppedAt(appId));
  }

  *#findStoppedAt(appId: string): RowWork<number | undefined> {
    return (yield* ask(this.#sql.findStop, appId))[0]?.stopped_at as number | undefined;
  }

  close(): void {
    this.#known = undefined;
    this.#rows.close();
  }

  #change<T>(appId: string, work: AppWork<T>): Awaitable<T> {
    return this.#write(appId, (app) => {
      if (app !== undefined) assertProven(app);
      return work(app);
    });
  }

  /** Writes the sum of the App's rows after `work`, which proves the rows or writes them again. */
  #write<T>(appId: string, work: AppWork<T>): Awaitable<T> {
    // The version of SQLite does not change with its own commits.
    this.#known = undefined;
    return this.#rows.transact(() => this.#writeSealed(appId, work), isDone);
  }

  *#writeSealed<T>(appId: string, work: AppWork<T>): RowWork<T> {
    const [app] = yield* this.#readApps(appId);
    const outcome = yield* work(app);
    if (isDone(outcome)) yield* this.#seal(appId);
    return outcome;
  }
}

/** `app`: as it was found */
type AppWork<T> = (app: AppRecord | undefined) => RowWork<T>;

function* isThere(sql: string, ...key: readonly string[]): RowWork<boolean> {
  return (yield* ask(sql, ...key)).length > 0;
}

function* countOf(sql: string, appId: string): RowWork<number> {
  return (yield* ask(sql, appId))[0]?.count as number;
}

const byApp = (rows: readonly SqlRow[]): ReadonlyMap<unknown, SqlRow[]> =>
  Map.groupBy(rows, (row) => row.app_id);
