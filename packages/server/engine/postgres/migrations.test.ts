import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { EngineRefused } from '../refused.ts';
import { whyUnfit } from './database-fitness.ts';
import { migrate } from './migrations.ts';
import { hasPostgresRows, openPostgres } from './open-postgres.ts';
import { addressOf, openDatabases } from './test/postgres-fixture.ts';
import { tryDatabase } from './try-database.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS } from './wire/limits.ts';

const START_MS_MAX = 300_000;
const ONE = { sql: 'CREATE TABLE one (id integer PRIMARY KEY)', minCompatible: 1 };
/** Fails when it is run twice, and takes a while. */
const TWO = {
  sql: 'SELECT pg_sleep(0.2); CREATE TABLE two (id integer PRIMARY KEY); INSERT INTO one VALUES (2)',
  minCompatible: 2,
};

let databases: TestDatabases;
let url: string;
let pools: PostgresPool[];

beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());
beforeEach(async () => {
  url = await databases.createDatabase();
  pools = [];
});
afterEach(() => Promise.all(pools.map((pool) => pool.close())));

/** The pool of one process before its migration. */
function openPool(): PostgresPool {
  const pool = new PostgresPool(addressOf(url, { connectionsMax: 2 }), POSTGRES_LIMITS);
  pools.push(pool);
  return pool;
}

async function readVersion(): Promise<unknown> {
  const { rows } = await openPool().read('looking', 'SELECT version FROM holdfast_schema', []);
  return rows[0]?.version;
}

async function hasTable(name: string): Promise<boolean> {
  const { rows } = await openPool().read('looking', 'SELECT to_regclass($1) IS NOT NULL AS known', [name]);
  return rows[0]?.known as boolean;
}

test('processes that start at once on an empty database all find its tables', async () => {
  const started = Array.from({ length: 8 }, () => openPostgres(addressOf(url, { connectionsMax: 2 })));
  pools.push(...(await Promise.all(started)));
  for (const pool of pools) {
    expect((await pool.read('looking', 'SELECT count(*) AS count FROM nodes', [])).rows[0]?.count).toBe(0);
  }
});

test('a new migration runs once, however many processes bring it, and the old ones do not run again', async () => {
  await migrate(openPool(), [ONE]);
  expect(await readVersion()).toBe(1);
  await Promise.all(Array.from({ length: 6 }, () => migrate(openPool(), [ONE, TWO])));
  expect(await readVersion()).toBe(2);
});

test('a migration that fails leaves nothing, and can run again', async () => {
  const failing = migrate(openPool(), [
    ONE,
    { sql: 'CREATE TABLE two (id integer); SELECT 1 / 0', minCompatible: 1 },
  ]);
  await failing.catch(() => undefined);
  expect(failing).rejects.toThrow();
  expect([await hasTable('one'), await hasTable('two'), await readVersion()]).toEqual([false, false, 0]);
  await migrate(openPool(), [ONE, TWO]);
  expect([await hasTable('one'), await hasTable('two'), await readVersion()]).toEqual([true, true, 2]);
});

test('a database of a newer Holdfast is refused, and left alone', async () => {
  await migrate(openPool(), [ONE, TWO]);
  const error = await migrate(openPool(), [ONE]).catch((caught) => caught);
  expect(error).toBeInstanceOf(EngineRefused);
  expect((error as Error).message).toContain('newer Holdfast');
  expect(await readVersion()).toBe(2);
});

test('an older build goes on with a database of a newer one that says so, and changes nothing in it', async () => {
  const adding = { sql: 'CREATE TABLE added (id integer)', minCompatible: 1 };
  await migrate(openPool(), [ONE, adding]);
  await migrate(openPool(), [ONE]);
  expect([await readVersion(), await hasTable('added')]).toEqual([2, true]);
  await migrate(openPool(), [ONE, adding, { sql: 'DROP TABLE added', minCompatible: 3 }]);
  for (const older of [[ONE], [ONE, adding]]) {
    expect(await migrate(openPool(), older).catch((caught) => caught)).toBeInstanceOf(EngineRefused);
  }
});

test('a database of a build that recorded only its version is migrated, and refused by older builds', async () => {
  const pool = openPool();
  const recorded =
    'CREATE TABLE holdfast_schema (id smallint PRIMARY KEY CHECK (id = 1), version integer NOT NULL)';
  await pool.run('preparing', recorded, []);
  await pool.run('preparing', 'INSERT INTO holdfast_schema VALUES (1, 2)', []);
  expect(await migrate(pool, [ONE]).catch((caught) => caught)).toBeInstanceOf(EngineRefused);
  await migrate(pool, [ONE, TWO]);
  const three = { sql: 'CREATE TABLE three (id integer)', minCompatible: 2 };
  await Promise.all(Array.from({ length: 4 }, () => migrate(openPool(), [ONE, TWO, three])));
  await migrate(openPool(), [ONE, TWO]);
  expect([await readVersion(), await hasTable('three')]).toEqual([3, true]);
});

test('a build that knows no seal may go on with an interrupted migration, and a later one with what it left', async () => {
  const failing = { sql: 'SELECT 1 / 0', minCompatible: 2 };
  const three = { sql: 'CREATE TABLE three (id integer)', minCompatible: 2 };
  const pool = openPool();
  await migrate(pool, [ONE]);
  // A database of a build that sealed none.
  await pool.run('preparing', 'UPDATE holdfast_schema SET seal = NULL', []);
  expect(await migrate(openPool(), [ONE, TWO, failing]).catch(() => 'failed')).toBe('failed');
  expect(await readVersion()).toBe(2);
  await pool.run('going on', 'CREATE TABLE three (id integer)', []);
  await pool.run('going on', 'UPDATE holdfast_schema SET version = 3', []);
  await migrate(openPool(), [ONE, TWO, three]);
  await migrate(openPool(), [ONE, TWO, three, { sql: 'CREATE TABLE four (id integer)', minCompatible: 2 }]);
  const { rows } = await pool.read('looking', 'SELECT version, seal > 0 AS sealed FROM holdfast_schema', []);
  expect(rows).toEqual([{ version: 4, sealed: true }]);
});

const SAID = ['version', 'min_compatible_version', 'step', 'seal'];
const BITS = [0, 1, 4, 15, 31];

test.each(SAID)('a wrong bit in the %s of the schema is put right', async (column) => {
  const pool = openPool();
  // Nothing in the database shows that it ran.
  const touching = { sql: 'INSERT INTO two VALUES (1)', minCompatible: 2 };
  await migrate(pool, [ONE, TWO, touching]);
  const read = async () => (await pool.read('looking', 'SELECT * FROM holdfast_schema', [])).rows[0];
  const right = await read();
  for (const bit of BITS) {
    await pool.run('damaging', `UPDATE holdfast_schema SET ${column} = ${column} # ${(1 << bit) | 0}`, []);
    await migrate(pool, [ONE, TWO, touching]);
    expect(await read()).toEqual(right);
  }
  expect((await pool.read('looking', 'SELECT id FROM two', [])).rows).toEqual([{ id: 1 }]);
});

test.each(SAID)('no wrong bit in the %s lets an older build use a newer schema', async (column) => {
  const pool = openPool();
  await migrate(pool, [ONE, TWO, { sql: 'INSERT INTO two VALUES (1)', minCompatible: 3 }]);
  for (const bit of BITS) {
    await pool.run('damaging', `UPDATE holdfast_schema SET ${column} = ${column} # ${(1 << bit) | 0}`, []);
    for (const older of [[ONE], [ONE, TWO]])
      await expect(migrate(openPool(), older)).rejects.toThrow(/has schema version 3, this build knows/);
    await pool.run(
      'mending',
      `UPDATE holdfast_schema SET ${column} = ${column} # ${(1 << bit) | 0} WHERE version <> 3 OR min_compatible_version <> 3 OR step <> 0`,
      [],
    );
  }
});

test('a database that cannot hold every character is refused, and left alone', async () => {
  const name = `${new URL(url).pathname.slice(1)}_latin1`;
  const operator = new Bun.SQL(url, { max: 1 });
  await operator.unsafe(
    `CREATE DATABASE ${name} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`,
  );
  try {
    const address = addressOf(url, { database: name });
    const error = await openPostgres(address).catch((caught) => caught);
    expect(error).toBeInstanceOf(EngineRefused);
    expect((error as Error).message).toMatch(/LATIN1.*UTF8/);
    expect(await hasPostgresRows(address)).toBe(false);
  } finally {
    await operator.unsafe(`DROP DATABASE ${name} WITH (FORCE)`);
    await operator.close();
  }
});

test('a PostgreSQL that is too old is refused, but not a relative that numbers its versions otherwise', () => {
  const unfit = (version: string, versionNumber: number) =>
    whyUnfit({ encoding: 'UTF8', version, versionNumber });
  expect(unfit('PostgreSQL 14.12 on x86_64-pc-linux-gnu', 140_012)).toBe(
    'the server is PostgreSQL 14.12: run version 15 or newer',
  );
  for (const [version, number] of [
    ['PostgreSQL 15.0 on x86_64-pc-linux-gnu', 150_000],
    ['CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)', 130_000],
    ['PostgreSQL 11.2-YB-2.20.1.3-b0 on x86_64-pc-linux-gnu', 110_002],
  ] as const) {
    expect(unfit(version, number)).toBeUndefined();
  }
});

test('a PostgreSQL that cannot be reached is unavailable', async () => {
  const opening = openPostgres(addressOf(url, { hosts: [{ host: '127.0.0.1', port: 1 }] }));
  expect(await opening.catch((error) => error)).toBeInstanceOf(StoreUnavailable);
});

test('a database with a table of somebody else is refused at once, and keeps nothing of ours', async () => {
  const operator = new Bun.SQL(url, { max: 1 });
  await operator.unsafe('CREATE TABLE nodes (mine integer)');
  for (const look of [() => openPostgres(addressOf(url)), () => tryDatabase(addressOf(url))]) {
    const error = await look().catch((caught) => caught);
    expect(error).toBeInstanceOf(EngineRefused);
    expect((error as Error).message).toMatch(/another program \(nodes\).*CREATE DATABASE/);
  }
  expect(await hasPostgresRows(addressOf(url))).toBe(false);
  const tables = await operator.unsafe("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
  expect([...tables]).toEqual([{ tablename: 'nodes' }]);
  await operator.close();
});

test('a role that may not make tables is told what gives it that right, and then it has it', async () => {
  const operator = new Bun.SQL(url, { max: 1 });
  const role = `${new URL(url).pathname.slice(1)}_role`;
  await operator.unsafe(`CREATE ROLE ${role} LOGIN PASSWORD 'role'`);
  await operator.unsafe(`GRANT ALL ON DATABASE ${new URL(url).pathname.slice(1)} TO ${role}`);
  const address = addressOf(url, { user: role, password: 'role', connectionsMax: 1 });
  try {
    for (const rights of ['no more', 'none']) {
      if (rights === 'none') await operator.unsafe('REVOKE ALL ON SCHEMA public FROM PUBLIC');
      for (const look of [() => openPostgres(address), () => tryDatabase(address)]) {
        const error = await look().catch((caught) => caught);
        expect({ rights, error }).toMatchObject({ error: expect.any(EngineRefused) });
        expect((error as Error).message).toMatch(/GRANT USAGE, CREATE ON SCHEMA public TO that role/);
      }
    }
    await operator.unsafe(`GRANT USAGE, CREATE ON SCHEMA public TO ${role}`);
    await (await openPostgres(address)).close();
  } finally {
    await operator.unsafe(`DROP OWNED BY ${role} CASCADE`);
    await operator.unsafe(`DROP ROLE ${role}`);
    await operator.close();
  }
});
