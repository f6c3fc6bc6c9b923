/**
 * The kept totals of an App equal those of its Spaces, even if processes write, count and add up concurrently. Unproven totals are not
 * used.
 */
import { beforeEach, expect, test } from 'bun:test';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import { until } from '../../../../test/support/until.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import type { Core } from '../../core/core.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import { compareAppTotals, foldAppChanges, readAppTotals } from './app-totals.ts';
import { checkAppTotals } from './sums/check-rows.ts';
import {
  coreOf,
  expectRecounted,
  makeContent,
  type StoreInstance,
  useProcesses,
} from './test/postgres-fixture.ts';

const TEST_MS_MAX = 120_000;
const APP = 'counted';
const ROUNDS = 12;
const WAITING = `SELECT count(*) AS count FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'`;

let instances: StoreInstance[];
let url: string;
let sql: Bun.SQL;
const content = makeContent();

useProcesses(2, {
  use: (opened, at) => {
    [instances, url] = [opened, at];
  },
  check: async (at) => {
    await sql.close();
    await expectRecounted(at);
  },
});
beforeEach(() => {
  sql = new Bun.SQL(url, { max: 1 });
});

const spaceOf = (number: number) => ({ appId: APP, spaceId: `space ${number}` });

/** Publishes, commits, leaves an upload that is never judged, and collects. */
async function write(core: Core, number: number): Promise<void> {
  const space = spaceOf(number % 5);
  const leaf = makeNode(`leaf ${number}`);
  for (const node of [
    leaf,
    makeNode(`parent ${number}`, { refs: [leaf.hash] }),
    makeNode(`brought ${number}`),
  ]) {
    const answer = await leaseNode(core, space, node.hash, 1, () => 'http://unused');
    if (!('upload' in answer)) throw new Error(`expected an upload, got ${answer.state}`);
    expect(content.put(answer.upload.url, node.bytes)).toBe(200);
    if (node.hash !== makeNode(`brought ${number}`).hash)
      await leaseNode(core, space, node.hash, 1, () => 'http://unused');
  }
  await updateRootRefs(core, space, 'photos', {
    requestId: `request ${number}`,
    changes: [{ hash: leaf.hash, delta: 1 }],
  });
  if (number % 3 === 0) await runGc(core, space, 10);
}

test(
  'totals are those of the Spaces while two processes write, count and add up at once',
  async () => {
    const cores = instances.map((each) => coreOf(each, content));
    let isWriting = true;
    const writing = Promise.all(
      cores.map(async (core, process) => {
        for (let round = 0; round < ROUNDS; round += 1) await write(core, round * 2 + process);
      }),
    ).finally(() => {
      isWriting = false;
    });
    const reading = instances.map(async ({ pool }, process) => {
      for (let look = 0; isWriting || look < 3; look += 1) {
        const { kept, counted } = await compareAppTotals(pool, APP);
        if (kept !== undefined) expect(kept).toEqual(counted);
        await readAppTotals(pool, APP, 2);
        await foldAppChanges(pool);
        // Forgotten now and then, so that it is counted beside writers.
        if (process === 0 && look % 4 === 3) await pool.run('forgetting', 'DELETE FROM app_totals', []);
      }
    });
    await Promise.all([writing, ...reading]);
    const { kept, counted } = await compareAppTotals((instances[0] as StoreInstance).pool, APP);
    expect(counted).toMatchObject({ spaces: 5, commitRows: 2 * ROUNDS });
    expect(kept ?? counted).toEqual(counted);
    expect(await readAppTotals((instances[0] as StoreInstance).pool, APP)).toEqual(counted);
  },
  TEST_MS_MAX,
);

test(
  'a count that cannot be kept is begun anew by the next who asks',
  async () => {
    const [{ pool }] = instances as [StoreInstance];
    await write(coreOf(instances[0] as StoreInstance, content), 1);
    const { counted } = await compareAppTotals(pool, APP);
    // As one who adds up and looked before the count began.
    await sql`BEGIN`;
    await sql`DELETE FROM app_changes`;
    const reading = readAppTotals(pool, APP);
    await until(async () => {
      const { rows } = await pool.read('looking who waits', WAITING, []);
      return (rows[0]?.count as number) > 0;
    });
    await sql`COMMIT`;
    expect(await reading).toEqual(counted);
    expect(await readAppTotals(pool, APP)).toEqual(counted);
    expect((await compareAppTotals(pool, APP)).kept).toEqual(counted);
  },
  TEST_MS_MAX,
);

test(
  'what is wrong is not believed, is named by a check, and is counted anew',
  async () => {
    const [{ pool }] = instances as [StoreInstance];
    const core = coreOf(instances[0] as StoreInstance, content);
    await write(core, 1);
    const right = await readAppTotals(pool, APP);
    await write(core, 2);
    const { counted } = await compareAppTotals(pool, APP);
    expect(counted.nodeCount).toBeGreaterThan(right.nodeCount);
    const look = { signal: new AbortController().signal, onTable: () => undefined };
    const names = async (isRepaired: boolean) =>
      (await checkAppTotals(pool, { ...look, isRepaired })).map(
        ({ table, repaired }) => `${table} ${repaired}`,
      );
    expect(await names(false)).toEqual([]);
    for (const damage of [
      `UPDATE app_totals SET node_count = node_count # 4`,
      `UPDATE app_totals SET pending_bytes = 9223372036854775807`,
      `UPDATE app_totals SET counting_since = 2`,
      `UPDATE app_changes SET commit_rows = commit_rows # (1::bigint << 62) WHERE commit_rows <> 0`,
      `UPDATE app_changes SET app_id = 'nobody' WHERE commit_rows <> 0`,
      // Its sum is right: only a recount finds it.
      `DELETE FROM app_changes WHERE commit_rows <> 0`,
    ]) {
      await write(core, 3 + (await sql`SELECT count(*)::integer AS count FROM root_ref_commits`)[0].count);
      const [{ count }] = await sql.unsafe(
        `WITH damaged AS (${damage} RETURNING 1) SELECT count(*)::integer AS count FROM damaged`,
      );
      expect({ damage, count }).not.toMatchObject({ count: 0 });
      expect({ damage, found: (await names(false)).length }).not.toMatchObject({ found: 0 });
      expect(await names(true)).not.toEqual([]);
      expect(await names(true)).toEqual([]);
      const { counted: now } = await compareAppTotals(pool, APP);
      for (let reading = 0; reading < 2; reading += 1) expect(await readAppTotals(pool, APP)).toEqual(now);
      expect((await compareAppTotals(pool, APP)).kept).toEqual(now);
    }
    // A read before any check does not return the wrong value either.
    await sql`UPDATE app_totals SET node_count = node_count # 4`;
    const { counted: last } = await compareAppTotals(pool, APP);
    expect(await readAppTotals(pool, APP)).toEqual(last);
  },
  TEST_MS_MAX,
);

test(
  'a wrong value of a counter, however large, and its repair leave totals that are right',
  async () => {
    const [{ pool }] = instances as [StoreInstance];
    await write(coreOf(instances[0] as StoreInstance, content), 1);
    const before = await readAppTotals(pool, APP);
    for (const bit of [0, 40, 62, 63]) {
      const flip = `UPDATE usage_counters SET node_count = node_count # (1::bigint << ${bit})`;
      await sql.unsafe(flip);
      await sql.unsafe(flip);
      expect(await readAppTotals(pool, APP)).toEqual(before);
    }
    // A row that says another Space for a while.
    for (const flip of ['1', '2'])
      await sql.unsafe(
        `UPDATE uploads SET space = overlay(space::text placing '${flip}' from 1 for 1)::uuid`,
      );
    expect((await compareAppTotals(pool, APP)).kept).toBeUndefined();
    await sql`UPDATE uploads SET space = (SELECT space FROM spaces)`;
    expect(await readAppTotals(pool, APP)).toEqual(before);
  },
  TEST_MS_MAX,
);

test('what changes no total notes nothing, and no statement makes the condition of a trigger ready to find out', async () => {
  const core = coreOf(instances[0] as StoreInstance, content);
  const [space, node] = [spaceOf(1), makeNode('noted once')];
  const notes = async () => Number((await sql`SELECT count(*) AS count FROM app_changes`)[0].count);
  const lease = () => leaseNode(core, space, node.hash, 60_000, () => 'http://unused');
  const opened = await lease();
  const before = await notes();
  await lease();
  await sql`UPDATE usage_counters SET lease_watermark = lease_watermark`;
  expect(await notes()).toBe(before);
  if (!('upload' in opened)) throw new Error(`expected an upload, got ${opened.state}`);
  content.put(opened.upload.url, node.bytes);
  expect((await lease()).state).toBe('ready');
  expect(await notes()).toBe(before + 1);
  const conditions = await sql`SELECT tgname FROM pg_trigger WHERE tgqual IS NOT NULL
    AND tgrelid IN ('uploads'::regclass, 'usage_counters'::regclass, 'domains'::regclass)`;
  expect([...conditions]).toEqual([]);
});
