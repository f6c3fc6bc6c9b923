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
} from './test/postgres-fixture.ts';
import { tryDatabase } from './try-database.ts';
import type { PostgresConnection } from './wire/connection.ts';

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
  'a read': (connection) => connection.query(SQL.findNode, [SPACE_KEY, NO_HASH]),
  'a read with content': (connection) => connection.query(SQL.findNodeWithContent, [SPACE_KEY, NO_HASH]),
  'a read of an upload': (connection) => connection.query(SQL.findUpload, [SPACE_KEY, NO_HASH]),
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
  'SET bytea_output = escape',
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

test('a failure is a reason to look at the session, as where it has no such tables any more', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const read = (connection: PostgresConnection) => connection.query(SQL.findNode, [SPACE_KEY, NO_HASH]);
  await instance.pool.lend(async (connection) => {
    await read(connection);
    await connection.script('SET search_path = elsewhere');
    for (const code of ['42P01', SWITCHED]) expect(await errorOf(read(connection))).toMatchObject({ code });
  });
  await instance.close();
});
