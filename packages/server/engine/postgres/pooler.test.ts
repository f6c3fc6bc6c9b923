/** A pooler between: in session mode it is used, in transaction mode it is refused, whenever it shows. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { METRICS } from '../../metrics/server-metrics.ts';
import type { PostgresAddress } from '../address.ts';
import { EngineRefused } from '../refused.ts';
import { SWITCHED } from './failure.ts';
import { openPostgres } from './open-postgres.ts';
import { SQL } from './statements.ts';
import { type Pooler, startPooler } from './test/pooler-fixture.ts';
import {
  addressOf,
  coreOf,
  leaseFor,
  makeContent,
  openDatabases,
  openInstance,
  publish,
} from './test/postgres-fixture.ts';
import { tryDatabase } from './try-database.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { SqlResult } from './wire/wire-messages.ts';

const START_MS_MAX = 300_000;
const ADVICE = /transaction mode.*session mode/s;

let databases: TestDatabases;
let pooler: Pooler | undefined;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterEach(() => pooler?.close());
afterAll(() => databases.close());

async function startAt(sessions: number): Promise<{ made: Pooler; address: PostgresAddress; url: string }> {
  const direct = await databases.createDatabase();
  const made = await startPooler(addressOf(direct), sessions);
  pooler = made;
  const url = new URL(direct);
  url.port = String(made.port);
  return { made, address: addressOf(url.href), url: url.href };
}

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );

test.each([1, 2, 5])(
  'a pooler in transaction mode of %i sessions is refused, and no setting stays in one',
  async (sessions) => {
    const { made, address } = await startAt(sessions);
    const before = await made.askAll(
      "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings",
    );
    for (const open of [() => openPostgres(address), () => tryDatabase(address)]) {
      const error = (await errorOf(open())) as Error;
      expect(error).toBeInstanceOf(EngineRefused);
      expect(error.message).toMatch(ADVICE);
    }
    expect(
      await made.askAll("SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings"),
    ).toEqual(before);
    expect(await made.askAll("SELECT coalesce(to_regclass('nodes')::text, 'none')")).toEqual(
      before.map(() => 'none'),
    );
  },
);

test('a pooler in session mode is used; from the moment it changes its mode nothing is acknowledged', async () => {
  const { made, url } = await startAt(40);
  made.mode = 'session';
  const instance = await openInstance(url, { connectionsMax: 4 });
  const content = makeContent();
  const core = coreOf(instance, content);
  const lease = (name: string) => leaseFor(core, makeNode(name));
  const before = await Promise.all(Array.from({ length: 20 }, (_, index) => lease(`before ${index}`)));
  expect(before.map(({ state }) => state)).toEqual(before.map(() => 'awaiting_upload'));
  made.mode = 'transaction';
  // The session that a connection still holds serves it until its next transaction has ended.
  await Promise.all(Array.from({ length: 20 }, (_, index) => errorOf(lease(`between ${index}`))));
  for (let turn = 0; turn < 20; turn += 1) {
    const work = [() => lease(`after ${turn}`), () => instance.pool.run('asking', 'SELECT 1', [])];
    for (const each of work) {
      const error = (await errorOf(each())) as Error;
      expect(error).toBeInstanceOf(StoreUnavailable);
      expect(error.message).toMatch(ADVICE);
    }
  }
  expect(METRICS.snapshot().holdfast_engine_up?.get('engine="postgres"')).toBe(0);
  await instance.close();
});

const SPACE_KEY = '00000000-0000-0000-0000-000000000000';
const NO_HASH = `\\x${'0'.repeat(64)}`;
/** None finds a row, so each has to look at the session by itself. */
const WORK: Readonly<Record<string, (connection: PostgresConnection) => Promise<unknown>>> = {
  'a renewal': (connection) =>
    connection.query(SQL.renewReadyLeases, [SPACE_KEY, [NO_HASH], [1], null, 0, 0]),
  'any statement': (connection) => connection.query(SQL.findDiscards, [SPACE_KEY, 0, 1]),
  'a script': (connection) => connection.script('SELECT 1'),
  'a transaction': (connection) =>
    Promise.all([connection.query('BEGIN'), connection.query(SQL.readNow, [null])]),
  'a transaction that asks for no time': (connection) =>
    Promise.all([connection.query('BEGIN'), connection.query(SQL.lockSpace, [SPACE_KEY])]),
  'a transaction that is only begun': (connection) => connection.query('BEGIN'),
};
const CHANGES = [
  'SET synchronous_commit = off',
  'SET search_path = public, elsewhere',
  "SET default_transaction_isolation = 'repeatable read'",
  'SET array_nulls = off',
];

test.each(Object.entries(WORK))(
  '%s fails in a session whose settings another program has changed',
  async (_name, work) => {
    const url = await databases.createDatabase();
    for (const change of ['SELECT 1', ...CHANGES]) {
      const instance = await openInstance(url);
      const failure = errorOf(
        instance.pool.lend(async (connection) => {
          // A statement that is new to a session is led by the guard.
          for (const each of ['SELECT 1', change]) {
            await connection.script(each);
            await work(connection).finally(() => connection.rollback());
          }
        }),
      );
      const code = change === 'SELECT 1' ? undefined : SWITCHED;
      expect(((await failure) as { code?: string } | undefined)?.code).toBe(code);
      await instance.close();
    }
  },
);

/** A read relies on no setting, so it needs no look at the session. */
const READS: Readonly<
  Record<string, (connection: PostgresConnection, space: string, hash: string) => Promise<SqlResult>>
> = {
  'a read': (connection, space, hash) => connection.query(SQL.findNode, [space, hash]),
  'a read with content': (connection, space, hash) =>
    connection.query(SQL.findNodeWithContent, [space, hash]),
  'a read of nodes with content': (connection, space, hash) =>
    connection.query(SQL.findNodesWithContent, [space, [hash]]),
  'a read of an upload': (connection, space, hash) => connection.query(SQL.findUpload, [space, hash]),
};
/** As another Holdfast may have its tables in the same database. */
const ELSEWHERE = ['nodes', 'contents', 'uploads'].map(
  (table) => `CREATE TABLE elsewhere.${table} (LIKE public.${table} INCLUDING DEFAULTS)`,
);

test.each(Object.entries(READS))(
  '%s gives the same rows whatever another program has set, or says that the session is not its own',
  async (name, read) => {
    const url = await databases.createDatabase();
    const node = makeNode('read anywhere');
    const ask = async (setting: string) => {
      const instance = await openInstance(url);
      try {
        return await instance.pool.lend(async (connection) => {
          const space = (await connection.query('SELECT space FROM spaces')).rows[0]?.space as string;
          await connection.script(setting);
          return (await read(connection, space, `\\x${node.hash}`)).rows;
        });
      } finally {
        await instance.close();
      }
    };
    const instance = await openInstance(url);
    const content = makeContent();
    if (name === 'a read of an upload') await leaseFor(coreOf(instance, content), node);
    else await publish(coreOf(instance, content), content, node);
    await instance.close();
    const found = await ask(`CREATE SCHEMA elsewhere; ${ELSEWHERE.join('; ')}`);
    expect(found).toHaveLength(1);
    for (const setting of ['synchronous_commit = off', 'search_path = elsewhere, public'])
      expect(await ask(`SET ${setting}`)).toEqual(found);
    expect(await errorOf(ask('SET bytea_output = escape'))).toMatchObject({ code: SWITCHED });
  },
);

test('a failure is a reason to look at the session, as where it has no such tables any more', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const renew = (connection: PostgresConnection) =>
    connection.query(SQL.renewReadyLeases, [SPACE_KEY, [NO_HASH], [1], null, 0, 0]);
  await instance.pool.lend(async (connection) => {
    await renew(connection);
    await connection.script('SET search_path = elsewhere');
    for (const code of ['42P01', SWITCHED]) expect(await errorOf(renew(connection))).toMatchObject({ code });
  });
  await instance.close();
});
