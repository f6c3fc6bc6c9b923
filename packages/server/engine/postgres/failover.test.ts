/** Several hosts of one database: the one that takes writes is found, at the start and when another takes over. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres-server.ts';
import { startTcpProxy } from '../../../../test/support/tcp-proxy.ts';
import { until } from '../../../../test/support/until.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../test/samples.ts';
import { openPostgres } from './open-postgres.ts';
import { addressOf, openInstance, type StoreInstance } from './test/postgres-fixture.ts';
import { PostgresConnection } from './wire/connection.ts';
import { POSTGRES_LIMITS } from './wire/limits.ts';
import type { SqlResult } from './wire/wire-messages.ts';

const START_MS_MAX = 300_000;
const CONNECTIONS = 16;
const NOBODY_PORT = 1;

let primary: PostgresServer;
let standby: PostgresServer;
/** of the database, at the primary */
let url: string;

beforeAll(async () => {
  primary = await startPostgres({ durable: false });
  url = await primary.createDatabase();
  standby = await primary.startStandby();
}, START_MS_MAX);
afterAll(async () => {
  await standby.stop();
  await primary.stop();
});

const at = (...ports: readonly number[]): string => {
  const { username, password, pathname } = new URL(url);
  return `postgres://${username}:${password}@${ports.map((port) => `127.0.0.1:${port}`).join(',')}${pathname}`;
};

/** A session of our own, which may read where nothing can be written. */
async function ask(server: PostgresServer, statement: string): Promise<SqlResult> {
  const raw = new Bun.SQL(at(server.port), { max: 1 });
  try {
    return { rows: await raw.unsafe(statement), count: 0, command: '' };
  } finally {
    await raw.close();
  }
}

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );
const insert = ({ store }: StoreInstance, index: number) =>
  insertNodes(store, SPACE, [readyNode(hashAt(index))]);

test('a standby is refused, and if no host takes writes the error says why for each', async () => {
  const alone = await errorOf(openPostgres(addressOf(at(standby.port))));
  expect(alone).toBeInstanceOf(StoreUnavailable);
  expect((alone as Error).message).toMatch(/takes no writes.*primary/);
  const none = (await errorOf(openPostgres(addressOf(at(NOBODY_PORT, standby.port))))) as Error;
  expect(none).toBeInstanceOf(StoreUnavailable);
  expect(none.message).toContain('127.0.0.1:1: nothing listens there');
  expect(none.message).toContain(`127.0.0.1:${standby.port}: it takes no writes`);
  expect(none.message).not.toContain(new URL(url).password);
  expect(none.message).not.toContain('\n');
});

test('a host that accepts connections and never answers is skipped within the time limit of a connection', async () => {
  const proxy = await startTcpProxy({ port: primary.port });
  proxy.setMode({ kind: 'hang' });
  const instance = await openInstance(at(proxy.port, primary.port), { limits: { connectMs: 2_000 } });
  await insert(instance, 0);
  expect(proxy.accepted).toBeGreaterThan(0);
  await instance.close();
  await proxy.close();
});

test(
  'the first host that takes writes is used, and the next one after it has taken over',
  async () => {
    const instance = await openInstance(at(NOBODY_PORT, standby.port, primary.port), {
      connectionsMax: CONNECTIONS,
    });
    await insert(instance, 1);
    await instance.close();

    const other = await openInstance(at(primary.port, standby.port), { connectionsMax: CONNECTIONS });
    const sleeps = Array.from({ length: CONNECTIONS }, () =>
      other.pool.run('resting', 'SELECT pg_sleep(0.2)', []),
    );
    await Promise.all(sleeps);
    await insert(other, 2);
    const written = (await ask(primary, 'SELECT pg_current_wal_lsn()::text AS lsn')).rows[0]?.lsn;
    await until(async () => {
      const { rows } = await ask(standby, `SELECT pg_last_wal_replay_lsn() >= '${written}' AS has_it`);
      return rows[0]?.has_it === true;
    });
    await ask(standby, 'SELECT pg_promote()');
    await ask(primary, 'ALTER SYSTEM SET default_transaction_read_only = on');
    await ask(primary, 'SELECT pg_reload_conf()');
    await until(
      async () =>
        (await errorOf(PostgresConnection.open(addressOf(url), POSTGRES_LIMITS, { roundTrips: 0 }))) !==
        undefined,
    );
    // Every session of the pool leads to a server that takes no writes any more: none may get a second request.
    await insert(other, 3);
    await Promise.all([4, 5, 6, 7].map((index) => insert(other, index)));
    expect((await other.store.findNode(SPACE, hashAt(2)))?.hash).toBe(hashAt(2));
    expect((await ask(standby, 'SELECT count(*)::int AS count FROM nodes')).rows[0]?.count).toBe(8);
    expect((await ask(primary, 'SELECT count(*)::int AS count FROM nodes')).rows[0]?.count).toBe(3);
    expect(other.fatal).toEqual([]);
    await other.close();
  },
  START_MS_MAX,
);
