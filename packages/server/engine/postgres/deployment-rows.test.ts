import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { testDeploymentRows } from '../test/deployment-suite.ts';
import { ManualClock } from '../test/samples.ts';
import { assertNoServer, beginServing, holdDeployment } from './deployment-lock.ts';
import { PostgresDeploymentRows } from './deployment-rows.ts';
import { DEPLOYMENT_SQL } from './deployment-statements.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
});
afterAll(() => databases.close());

testDeploymentRows('PostgreSQL', async () => {
  const { store, pool, close } = await openInstance(await databases.createDatabase(), {
    clock: new ManualClock(),
    // Fewer than the tests run at once: a connection left in the middle of a batch would be met again.
    connectionsMax: 1,
  });
  return {
    rows: new PostgresDeploymentRows({ pool, metadata: store }),
    metadata: store,
    beginServing: () => beginServing(pool),
    async loseNames() {
      const elsewhere = "'00000000-0000-4000-8000-000000000000'";
      await pool.lend((connection) =>
        connection.script(
          `UPDATE loose_edges SET space = ${elsewhere}; UPDATE balances SET domain = 'other'; UPDATE spaces SET space_id = 'tpace'`,
        ),
      );
    },
    destroy: close,
  };
});

test('what no Space leads to is looked for from Space to Space, not from row to row', async () => {
  const { pool, close } = await openInstance(await databases.createDatabase());
  await pool.lend((connection) =>
    connection.script(`INSERT INTO loose_edges (space, hash, count)
      SELECT '00000000-0000-4000-8000-000000000000', sha256(number::text::bytea), 1 FROM generate_series(1, 5000) AS number;
      INSERT INTO spaces (space, app_id, space_id) VALUES ('00000000-0000-4000-8000-000000000000', 'app', 'space')`),
  );
  const explaining = `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${DEPLOYMENT_SQL.findUnreached}`;
  const [row] = (await pool.read('explaining', explaining, [])).rows as unknown as [
    { 'QUERY PLAN': [{ Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number } }] },
  ];
  const plan = row['QUERY PLAN'][0].Plan;
  expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(500);
  await close();
});

/** Long enough for a first look to be over. */
const LOOK_MS = 300;

test('one copy at a time writes to a database, and none while a server runs on it', async () => {
  const url = await databases.createDatabase();
  const [first, second] = [await openInstance(url), await openInstance(url)];
  const held = await holdDeployment(first.pool);
  // The other one's session is called as a server's is.
  await expect(assertNoServer(first.pool)).rejects.toThrow(/connections of holdfast servers are open/);
  await expect(holdDeployment(second.pool)).rejects.toThrow(
    /another holdfast migrate works on this database/,
  );
  await held.release();
  await first.close();
  const next = await holdDeployment(second.pool);
  await assertNoServer(second.pool);
  await next.release();
  await second.close();
});

test('a server that is just ending is waited for', async () => {
  const url = await databases.createDatabase();
  const [copy, server] = [await openInstance(url), await openInstance(url)];
  // Its session is open when the look begins.
  await server.pool.run('serving', 'SELECT 1', []);
  const looking = assertNoServer(copy.pool);
  await Bun.sleep(LOOK_MS);
  await server.close();
  await looking;
  await copy.close();
});
