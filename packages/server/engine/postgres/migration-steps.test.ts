/** A database that is in use is migrated beside those who use it, from every schema, and can be cut off anywhere. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { until } from '../../../../test/support/until.ts';
import { stepsOf } from './migration-steps.ts';
import { MIGRATIONS, migrate } from './migrations.ts';
import { addressOf, openDatabases } from './test/postgres-fixture.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS } from './wire/limits.ts';

const START_MS_MAX = 300_000;
/** Far longer than a step waits for a table, and than its wait may take on a busy machine. */
const PATIENT = "SET lock_timeout = '30s'";
/** Two pages of domains and some. */
const DOMAINS = 1_100;
const FILL = `
  INSERT INTO domains (space, domain, revision, history_floor)
    SELECT md5('s' || n % 7)::uuid, 'domain ' || n, 2, 0 FROM generate_series(1, ${DOMAINS}) AS n;
  INSERT INTO root_ref_commits (space, domain, request_id, payload_digest, revision)
    SELECT space, domain, convert_to('r' || r, 'UTF8'), '', r FROM domains, generate_series(1, 2) AS r`;
const DESCRIBE = `SELECT string_agg(line, E'\\n' ORDER BY line) AS schema FROM (
    SELECT format('%s %s %s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull,
      pg_get_expr(adbin, adrelid), attoptions) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
      LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      WHERE relkind = 'r' AND attnum > 0 AND NOT attisdropped AND relnamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s', indisvalid, pg_get_indexdef(indexrelid)) FROM pg_index JOIN pg_class ON oid = indexrelid
      WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid <> 0
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s', relname, reloptions) FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s %s %s', version, min_compatible_version, step, place) FROM holdfast_schema) AS all_of_it (line)`;

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

async function openDatabase(version: number) {
  const url = await databases.createDatabase();
  const pool = new PostgresPool(addressOf(url, { connectionsMax: 2 }), POSTGRES_LIMITS);
  const sql = new Bun.SQL(url, { max: 1 });
  await migrate(pool, MIGRATIONS.slice(0, version));
  return {
    ...{ url, pool, sql },
    describe: async () => (await sql.unsafe(DESCRIBE))[0].schema as string,
    async [Symbol.asyncDispose]() {
      await pool.close();
      await sql.close();
    },
  };
}

async function describeNew(): Promise<string> {
  await using made = await openDatabase(MIGRATIONS.length);
  return made.describe();
}

test('a database of an earlier schema becomes in steps what a new one is at once', async () => {
  const wanted = await describeNew();
  for (const version of [1, 8, 11, MIGRATIONS.length - 1]) {
    await using old = await openDatabase(version);
    await old.sql.unsafe(FILL);
    await Promise.all(version === 8 ? [migrate(old.pool), migrate(old.pool)] : [migrate(old.pool)]);
    expect(await old.describe()).toBe(wanted);
    if (version > 10) continue;
    const counts = await old.sql`SELECT count(*)::integer AS domains FROM domains WHERE commit_count = 2`;
    expect(counts[0].domains).toBe(DOMAINS);
  }
}, 120_000);

test('an index of a table that was there before is made concurrently, alone', () => {
  const known = new Set<string>();
  for (const { sql } of MIGRATIONS) {
    const made = [...sql.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, name]) => name as string);
    for (const step of stepsOf(sql)) {
      const table = /^CREATE (?:UNIQUE )?INDEX .*?\bON (\w+)/.exec(step)?.[1];
      if (table !== undefined && known.has(table)) expect(step).toMatch(/^CREATE INDEX CONCURRENTLY /);
      expect(step).not.toMatch(/^UPDATE (?!spaces )|^ALTER TABLE \w+ (?:.|\n)*\bTYPE\b/);
    }
    for (const name of made) known.add(name);
  }
});

/** A session that stays in the middle of `statement` until the returned function is called. */
async function hold(url: string, statement: string) {
  const sql = new Bun.SQL(url, { max: 1 });
  await sql.unsafe(`BEGIN; ${statement}`);
  return async () => {
    await sql.unsafe('ROLLBACK');
    await sql.close();
  };
}

const FIND_WAITING = `SELECT pid FROM pg_locks WHERE NOT granted AND mode = $1
  AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`;

test('a step that waits for a table lets those pass who come after it', async () => {
  await using old = await openDatabase(8);
  const release = await hold(old.url, 'LOCK TABLE nodes IN ACCESS SHARE MODE');
  const migrated = migrate(old.pool);
  await until(async () => (await old.sql.unsafe(FIND_WAITING, ['AccessExclusiveLock'])).length > 0);
  await old.sql.unsafe(PATIENT);
  for (let reads = 0; reads < 3; reads += 1) await old.sql.unsafe('SELECT count(*) FROM nodes');
  await release();
  await migrated;
  expect(await old.describe()).toBe(await describeNew());
}, 120_000);

test('writers go on while an index is made, and what is left of one that was cut off is made again', async () => {
  await using old = await openDatabase(9);
  const insert = (
    name: string,
  ) => `INSERT INTO contents (space, generation, canonical_size, url_expires_at, integrity)
    VALUES (md5('${name}')::uuid, '${name}', 1, 1, '')`;
  const release = await hold(old.url, insert('held'));
  const migrated = migrate(old.pool).catch((error) => error);
  const find = () => old.sql.unsafe(FIND_WAITING, ['ShareLock']);
  await until(async () => (await find()).length > 0);
  await old.sql.unsafe(`${PATIENT}; ${insert('beside')}`);
  await old.sql.unsafe(
    `SELECT pg_terminate_backend(pid) FROM (${FIND_WAITING.replace('$1', "'ShareLock'")}) AS waiting`,
  );
  expect(await migrated).toBeInstanceOf(Error);
  await release();
  expect(await old.describe()).toContain('f CREATE INDEX contents_to_pack');
  await migrate(old.pool);
  expect(await old.describe()).toBe(await describeNew());
}, 120_000);
