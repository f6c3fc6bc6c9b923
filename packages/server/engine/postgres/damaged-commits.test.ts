import { afterAll, beforeAll } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { testDamagedCommits } from '../test/damaged-commits-suite.ts';
import { ManualClock } from '../test/samples.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';

const START_MS_MAX = 300_000;

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

testDamagedCommits(async () => {
  const clock = new ManualClock();
  const { pool, store, close } = await openInstance(await databases.createDatabase(), { clock });
  return {
    store: () => store,
    setClock: (now) => clock.set(now),
    change: async (sql) => {
      await pool.run('damaging', sql, []);
    },
    close,
  };
});
