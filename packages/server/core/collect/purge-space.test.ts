/** A purge removes everything in a Space, and nothing of what was given out before is good afterwards. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { databasePath } from '../../../../test/support/embedded-files.ts';
import { getUsage } from '../read/get-usage.ts';
import { listRootRefs } from '../refs/list-root-refs.ts';
import { updateRootRefs } from '../refs/update-root-refs.ts';
import {
  CoreWorld,
  DAY_MS,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { claimCandidates } from './collection.ts';
import { purgeSpace, takeRootRefs } from './purge-space.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const always = async (): Promise<boolean> => true;
let requests = 0;
const commit = (domain: string, hash: string, delta: number) => {
  requests += 1;
  return updateRootRefs(world.core, SPACE, domain, {
    ...{ requestId: `r${requests}`, changes: [{ hash, delta }] },
  });
};

async function fill(): Promise<void> {
  const [leaf, object, other] = [smallNode(1), objectNode(2), smallNode(3)];
  const parent = objectNode(4, [leaf.hash, object.hash, leaf.hash]);
  await world.publish(leaf, object, other, parent);
  await world.upload(smallNode(5, [smallNode(6).hash, leaf.hash]));
  await world.begin(smallNode(7));
  await world.put(await world.begin(objectNode(8)), objectNode(8).bytes);
  // One aggregate of 1 is the sum of a positive and a negative balance.
  await commit('one', leaf.hash, 3);
  await commit('two', leaf.hash, -2);
  await commit('one', parent.hash, 1);
  await commit('one', other.hash, 1);
  await commit('one', other.hash, -1);
}

test('a purge takes every node, leased or held, ready or waiting, and the Space can be used again', async () => {
  await fill();
  expect(await purgeSpace(world.core, SPACE, always)).toEqual({ nodes: 5, left: 0, isFinished: true });
  expect(await getUsage(world.core, SPACE)).toEqual({
    ...{ nodeCount: 0, notReadyNodeCount: 0, leasedNodeCount: 0 },
    ...{ readyContentBytes: 0, readyStoredBytes: 0, reservedBytes: 0 },
  });
  expect(world.objectFiles()).toEqual([]);
  expect(await purgeSpace(world.core, SPACE, always)).toEqual({ nodes: 0, left: 0, isFinished: true });
  await world.publish(smallNode(1));
  await commit('one', smallNode(1).hash, 1);
});

test('a purge that stops after any step leaves a sound Space, and continues when repeated', async () => {
  await fill();
  let nodes = 5;
  for (let steps = 0, isFinished = false; !isFinished; steps += 1) {
    expect(steps).toBeLessThan(60);
    let turns = steps;
    const step = await purgeSpace(world.core, SPACE, async () => {
      turns -= 1;
      return turns >= 0;
    });
    expect(step.left).toBe(nodes - step.nodes);
    nodes = step.left;
    ({ isFinished } = step);
  }
  expect(nodes).toBe(0);
  expect(world.objectFiles()).toEqual([]);
});

test('upload URLs and cursors from before stay refused, also once the Space is used again', async () => {
  await fill();
  const waiting = await world.begin(smallNode(7));
  const query = { limit: 1 };
  const { nextCursor } = await listRootRefs(world.core, SPACE, 'one', query);
  const cursor = nextCursor as string;
  await purgeSpace(world.core, SPACE, always);
  const refused = async () => {
    expect(await failureOf(world.put(waiting, smallNode(7).bytes))).toMatchObject({ status: 412 });
    expect(await failureOf(listRootRefs(world.core, SPACE, 'one', { ...query, cursor }))).toMatchObject({
      code: 'CONFLICT',
    });
  };
  await refused();
  await fill();
  for (let index = 0; index < 8; index += 1) await commit('one', smallNode(1).hash, 1);
  await refused();
});

test('a purge leaves no row of commits', async () => {
  await fill();
  await purgeSpace(world.core, SPACE, always);
  const database = new Database(databasePath(world.dataDir), { readonly: true });
  try {
    for (const table of ['nodes', 'uploads', 'contents', 'balances', 'balance_history', 'root_ref_commits']) {
      const left = database.query<{ count: number }, []>(`SELECT count(*) AS count FROM ${table}`).get();
      expect([table, left?.count]).toEqual([table, 0]);
    }
  } finally {
    database.close();
  }
});

test('root refs of the nodes that are named go alone', async () => {
  const [one, other] = [smallNode(1), smallNode(2)];
  await world.publish(one, other);
  for (const node of [one, other]) await commit('d', node.hash, 1);
  await world.core.metadata.transact(SPACE, takeRootRefs, { limit: 1, hashes: [one.hash] });
  const { items } = await listRootRefs(world.core, SPACE, 'd', { limit: 9, cursor: undefined });
  expect(items.map(({ hash }) => hash)).toEqual([other.hash]);
});

test('nodes that a killed collection had claimed are purged too', async () => {
  const claimed = objectNode(1);
  await world.publish(claimed, smallNode(2));
  world.now += 2 * MINUTE_MS;
  await world.core.metadata.transact(SPACE, claimCandidates, {
    ...{ limit: 10, uploads: world.core.content.upload.kind, isDamaged: false, from: 0 },
  });
  expect(await world.row(claimed)).toMatchObject({ state: 'claimed' });
  expect(await purgeSpace(world.core, SPACE, always)).toEqual({ nodes: 1, left: 0, isFinished: true });
  expect(world.objectFiles()).toEqual([]);
});

/** A purge, and `work` once it has taken all nodes. */
async function purgeAround(work: () => Promise<unknown>): Promise<unknown> {
  let hasWorked = false;
  return purgeSpace(world.core, SPACE, async () => {
    if (!hasWorked && (await getUsage(world.core, SPACE)).nodeCount === 0) {
      hasWorked = true;
      await work();
    }
    return true;
  });
}

test('a commit that is made during a purge stays, with its request id', async () => {
  const node = smallNode(1);
  await world.publish(node);
  await commit('one', node.hash, 1);
  const request = { requestId: 'during', changes: [{ hash: node.hash, delta: 2 }] };
  const make = () => updateRootRefs(world.core, SPACE, 'two', request);
  const purged = purgeAround(async () => {
    await world.publish(node);
    await make();
  });
  expect((await failureOf(purged)).message).toContain('some came during the purge');
  expect(await make()).toMatchObject({ idempotent: true, revision: 1 });
});

test('a purge that more nodes come by than it takes says so, and counts none below 0', async () => {
  await world.publish(smallNode(1));
  const purged = purgeAround(async () => {
    await world.publish(smallNode(2), smallNode(3));
    for (const seed of [2, 3]) await commit('one', smallNode(seed).hash, 1);
  });
  expect((await failureOf(purged)).message).toStartWith('0 nodes were removed, and 2 are left');
});

test('a purge ends although clients could still write what it deletes, and time passes', async () => {
  const urlExpiresAt = world.now + DAY_MS;
  await world.core.metadata.transact(SPACE, async (tx) => {
    await tx.insert('discard', { generation: 'ee'.repeat(16), dueAt: world.now, urlExpiresAt });
  });
  let steps = 0;
  const step = await purgeSpace(world.core, SPACE, async () => {
    world.now += MINUTE_MS;
    steps += 1;
    return steps < 100;
  });
  expect(step).toEqual({ nodes: 0, left: 0, isFinished: true });
  // The sweep deletes the object for the last time.
  world.now += DAY_MS;
});
