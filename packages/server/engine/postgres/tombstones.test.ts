import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';
import { raiseRevisions } from './tombstones.ts';

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
