/** The walk over Spaces with something due: what it costs, and that one Space with much does not keep the others waiting. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { NOW } from '../test/samples.ts';
import { SweepWalk } from './sweep-walk.ts';
import { openDatabases, openInstance, type StoreInstance } from './test/postgres-fixture.ts';

const START_MS_MAX = 300_000;
const SPACES = 20_000;
const CUTOFFS = { now: NOW, abandonedAt: NOW - 100, historyAt: 0 };

let databases: TestDatabases;
let instance: StoreInstance;

beforeAll(async () => {
  databases = await openDatabases();
  instance = await openInstance(await databases.createDatabase());
  await administer(`
    INSERT INTO spaces SELECT md5('space' || s)::uuid, 'app', 'space' || s FROM generate_series(1, ${SPACES}) AS s;
    INSERT INTO uploads (space, hash, generation, created_at, url_expires_at, touched_at, active_at)
      SELECT space, sha256(space::text::bytea), uuid_send(space), 0, ${NOW}, ${NOW}, ${NOW} FROM spaces; ANALYZE`);
}, START_MS_MAX);
afterAll(async () => {
  await instance.close();
  await databases.close();
});
beforeEach(() => administer('DELETE FROM discards'));

const administer = (script: string) => instance.pool.lend((connection) => connection.script(script));

/** `rows` due in a Space, at instants from `at` on. */
const setDue = (space: number, rows: number, at: number) =>
  administer(`INSERT INTO discards SELECT md5('space${space}')::uuid, uuid_send(md5('${space} ' || n)::uuid), ${at} + n / 1000, 0
    FROM generate_series(1, ${rows}) AS n`);

async function find(walk: SweepWalk, limit: number): Promise<string[]> {
  return (await walk.findSpaces(CUTOFFS, limit)).spaces.map(({ spaceId }) => spaceId);
}

test('the one of many busy Spaces with something due is found at once, in a few round trips', async () => {
  await setDue(777, 3, NOW - 10);
  const walk = new SweepWalk(instance.pool);
  await find(walk, 10);
  const before = instance.pool.counter.roundTrips;
  expect(await find(walk, 10)).toEqual(['space777']);
  // The first use of a statement on a connection costs a trip more.
  expect(instance.pool.counter.roundTrips - before).toBeLessThanOrEqual(8);
});

test('Spaces behind one with far more rows than a call reads are found', async () => {
  await setDue(1, 25_000, NOW - 1000);
  await setDue(2, 1, NOW - 500);
  await setDue(3, 1, NOW - 1);
  const walk = new SweepWalk(instance.pool);
  const seen = new Set<string>();
  for (let call = 0; call < 6; call += 1) for (const spaceId of await find(walk, 2)) seen.add(spaceId);
  expect([...seen].sort()).toEqual(['space1', 'space2', 'space3']);
});

test('a Space is not found before something is due, however busy it is', async () => {
  await setDue(5, 1, NOW + 1);
  expect(await find(new SweepWalk(instance.pool), 10)).toEqual([]);
});
