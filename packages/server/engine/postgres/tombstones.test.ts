import { afterAll, beforeAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { until } from '../../../../test/support/until.ts';
import { sharedSum } from './row-sums.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';
import { raiseRevisions, readDomainStart } from './tombstones.ts';

const START_MS_MAX = 300_000;
const STEP = 1_000;

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

test('revisions that were raised in part are raised to the end, none of them twice', async () => {
  const { pool, close } = await openInstance(await databases.createDatabase());
  const makeDomains = `INSERT INTO domains (space, domain, revision, history_floor)
    SELECT md5('space' || n % 7)::uuid, 'domain ' || n, n, 0 FROM generate_series(1, 100) AS n`;
  await pool.run('filling', makeDomains, []);
  // A domain in the middle that takes no revision any more.
  const findMiddle =
    'SELECT space, domain, revision FROM domains ORDER BY space, domain COLLATE "C" OFFSET 50 LIMIT 1';
  const [middle] = (await pool.read('looking', findMiddle, [])).rows;
  const refuse = `ALTER TABLE domains ADD CONSTRAINT refused CHECK (revision <> ${(middle?.revision as number) + STEP})`;
  await pool.run('refusing', refuse, []);
  const start = { revision: 0 };
  const raise = () => raiseRevisions(pool, STEP, start, 10);
  const countRaised = async () => {
    const sql = `SELECT count(*) AS count FROM domains WHERE revision BETWEEN ${STEP + 1} AND ${STEP + 100}
      AND history_floor = revision AND revision - ${STEP} = substr(domain, 8)::bigint`;
    return (await pool.read('looking', sql, [])).rows[0]?.count;
  };
  await expect(raise()).rejects.toThrow('refused');
  expect(await countRaised()).toBe(50);
  await pool.run('allowing', 'ALTER TABLE domains DROP CONSTRAINT refused', []);
  await raise();
  expect(await countRaised()).toBe(100);
  expect(start.revision).toBe(STEP);
  await raise();
  expect(await countRaised()).toBe(0);
  expect(start.revision).toBe(2 * STEP);
  await close();
});

test('a damaged number is neither raised nor believed', async () => {
  const { pool, store, close } = await openInstance(await databases.createDatabase());
  const makeDomains = `INSERT INTO domains (space, domain, revision, history_floor)
    SELECT md5('space')::uuid, 'domain ' || n, n, CASE n WHEN 2 THEN 1::bigint << 61 ELSE 0 END FROM generate_series(1, 3) AS n`;
  await pool.run('filling', makeDomains, []);
  await raiseRevisions(pool, STEP, { revision: 0 });
  const { rows } = await pool.read('looking', 'SELECT revision FROM domains ORDER BY domain', []);
  expect(rows.map(({ revision }) => revision)).toEqual([STEP + 1, 2, STEP + 3]);
  await pool.run(
    'damaging',
    "UPDATE notes SET value = '0' || substr(value, 2) WHERE name = 'first-revision'",
    [],
  );
  expect(await readDomainStart(pool)).toEqual({ revision: Number.NaN });
  await expect(store.settle('note', { name: 'first-revision', value: 1 })).rejects.toThrow(
    'contradicts its sum',
  );
  // accept-restore still has a way on.
  const start = { revision: Number.NaN };
  await raiseRevisions(pool, STEP, start);
  expect(start.revision).toBeGreaterThan(2 * STEP + 3);
  expect(await readDomainStart(pool)).toEqual(start);
  await close();
});

test('a number in a note is not lowered by a process that waited for another one', async () => {
  const url = await databases.createDatabase();
  const { store, close } = await openInstance(url);
  await using sql = new SQL(url, { max: 2 });
  const raise = (value: number) => store.settle('note', { name: 'number', value });
  await raise(10);
  let lower: Promise<void> | undefined;
  await sql.begin(async (other) => {
    await other`UPDATE notes SET value = '30', row_sum = ${sharedSum('number', '30')} WHERE name = 'number'`;
    lower = raise(20);
    const isWaiting = async () =>
      (
        await sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      ).length > 0;
    await until(isWaiting);
  });
  await lower;
  expect(await store.page('note', 'number')).toBe('30');
  await close();
});
