/** Packs that are published in several transactions: crashes between them, and several leases at once (core/packs/README.md). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { makePack, plain } from '../../../../test/support/planted-pack.ts';
import { unzstd } from '../../engine/packed-object.ts';
import { JudgingTurns } from '../../shares/fair-queue.ts';
import { runGc } from '../collect/run-gc.ts';
import type { Core } from '../core.ts';
import type { PackStore } from '../pack-ports.ts';
import { getUsage } from '../read/get-usage.ts';
import { CoreWorld, DAY_MS, failureOf, MINUTE_MS, SPACE, smallNode } from '../test/core-fixture.ts';
import { beforeTransactions, manyNodes, PackClient, statesOf, withPacks } from '../test/pack-fixture.ts';
import { PackJudgements } from './judge-pack.ts';
import { beginPack } from './pack-decision.ts';
import { publishGroup } from './publish-group.ts';

const GROUP = 256;
const COUNT = 2 * GROUP + 88;

let world: CoreWorld;
let client: PackClient;
beforeEach(async () => {
  world = await CoreWorld.open({}, { workers: 2 });
  client = new PackClient(world, false);
});
afterEach(() => world.close());

/** A pack of these nodes that was sent. */
async function sent(nodes: readonly CanonicalNode[]): Promise<string> {
  const pack = await client.open(nodes);
  expect(await client.put(pack, makePack(nodes.map(plain)))).toBe(200);
  return pack.id;
}

/** Its lease fails before the last group. */
async function publishAllButTheLast(id: string): Promise<void> {
  const core = beforeTransactions(world.core, publishGroup, (earlier) => {
    if (earlier === 2) throw new Error('planted: a crash');
  });
  await expect(client.lease(id, MINUTE_MS, core)).rejects.toThrow('planted');
  expect(await client.pack(id)).toMatchObject({ state: 'judging', publishedCount: 2 * GROUP });
}

test('parents in the first group and children in the last are all ready at once', async () => {
  const leaves = manyNodes(COUNT - 2);
  const parents = [0, 1].map((index) =>
    smallNode(
      9e8 + index,
      leaves.slice(-200).map(({ hash }) => hash),
    ),
  );
  const id = await sent([...parents, ...leaves]);
  expect(new Set(statesOf(await client.lease(id)))).toEqual(new Set(['ready']));
});

test('after a crash between groups the next lease continues where publishing stopped', async () => {
  const nodes = manyNodes(COUNT);
  const id = await sent(nodes);
  await publishAllButTheLast(id);
  await world.restart();
  expect((await getUsage(world.core, SPACE)).nodeCount).toBe(2 * GROUP);
  const answer = await client.lease(id);
  expect(answer.results.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
  expect(new Set(statesOf(answer))).toEqual(new Set(['ready']));
  expect(await client.use(id)).toMatchObject({ liveRecords: COUNT });
});

test('a node that was collected between two leases of its pack is not published again', async () => {
  const nodes = manyNodes(COUNT);
  const id = await sent(nodes);
  await publishAllButTheLast(id);
  world.now += 2 * MINUTE_MS;
  expect((await runGc(world.core, SPACE, 10_000)).deleted).toBe(2 * GROUP);
  const states = statesOf(await client.lease(id));
  expect(states.filter((state) => state === 'absent')).toHaveLength(2 * GROUP);
  expect(states.filter((state) => state === 'ready')).toHaveLength(COUNT - 2 * GROUP);
  expect(await client.use(id)).toMatchObject({ liveRecords: COUNT - 2 * GROUP });
});

test('a pack that nobody leases to its end is judged after 24 h, and the room it kept is free', async () => {
  const nodes = manyNodes(COUNT);
  const id = await sent(nodes);
  world.quotas.space = { maxBytes: undefined, maxNodes: COUNT };
  await publishAllButTheLast(id);
  const one = smallNode(5e8);
  expect((await failureOf(client.lease(await sent([one])))).code).toBe('RESOURCE_EXHAUSTED');
  world.now += DAY_MS - MINUTE_MS;
  await world.sweepAll();
  expect((await failureOf(client.lease(await sent([one])))).code).toBe('RESOURCE_EXHAUSTED');
  world.now += 10 * MINUTE_MS;
  await world.sweepAll();
  expect(await client.pack(id)).toMatchObject({ state: 'judged', isDiscarded: false });
  expect(statesOf(await client.lease(await sent([one])))).toEqual(['ready']);
  expect((await failureOf(client.lease(id))).status).toBe(404);
  expect(statesOf(await client.leases([nodes[0]!, nodes[COUNT - 1]!]))).toEqual(['ready', 'absent']);
});

test('concurrent leases in one process share one judgement of the pack', async () => {
  const nodes = manyNodes(3);
  const id = await sent(nodes);
  let judged = 0;
  const inspect: PackStore['inspect'] = (...given) => {
    judged += 1;
    return world.core.content.packs.inspect(...given);
  };
  const core = withPacks(world.core, { inspect });
  const answers = await Promise.all([1, 2, 3].map((minutes) => client.lease(id, minutes * MINUTE_MS, core)));
  expect(judged).toBe(1);
  for (const [index, answer] of answers.entries()) {
    expect(statesOf(answer)).toEqual(['ready', 'ready', 'ready']);
    for (const result of answer.results) {
      expect('leaseExpiresAt' in result && result.leaseExpiresAt).toBeGreaterThanOrEqual(
        world.now + (index + 1) * MINUTE_MS,
      );
    }
  }
});

test('leases in two processes at once publish each record once', async () => {
  const other = await world.openBeside();
  const nodes = manyNodes(COUNT);
  const id = await sent(nodes);
  const answers = await Promise.all([client.lease(id), client.lease(id, MINUTE_MS, other)]);
  for (const answer of answers) {
    expect(answer.results.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
    expect(new Set(statesOf(answer))).toEqual(new Set(['ready']));
  }
  expect(await client.use(id)).toMatchObject({ liveRecords: COUNT });
});

test('a v1 lease, a Bulk lease and a collection of one hash at once: every answer is true', async () => {
  for (let round = 0; round < 5; round += 1) {
    const node = smallNode(round);
    if (round % 2 === 0) await client.send([node]);
    const id = await sent([node, smallNode(100 + round)]);
    world.now += 2 * MINUTE_MS;
    const [alone, bulk, pack] = await Promise.all([
      world.lease(node),
      client.leases([node]),
      client.lease(id),
      runGc(world.core, SPACE, 100),
    ]);
    expect(['ready', 'awaiting_upload']).toContain(alone.state);
    expect(['ready', 'absent']).toContain(bulk.results[0]!.state);
    expect(statesOf(pack)).toEqual(['ready', 'ready']);
    // Who was told ready has a lease, and the node is there.
    expect((await world.row(node))?.leaseExpiresAt).toBeGreaterThanOrEqual(world.now + MINUTE_MS);
    expect((await client.read([node]))[0]?.hash).toBe(node.hash);
  }
});

test('a limit that changes between a crash and the next lease changes nothing of what was judged', async () => {
  const large = makeNode('z'.repeat(5000));
  const nodes = [large, ...manyNodes(COUNT - 1)];
  for (const limits of [
    [4096, 8192],
    [8192, 4096],
  ] as const) {
    const [before, after] = limits.map((nodeBytesMax) => ({
      ...world.core,
      settings: { ...world.core.settings, nodeBytesMax },
    }));
    const id = await sent(nodes);
    const crashing = beforeTransactions(before as Core, publishGroup, (earlier) => {
      if (earlier === 2) throw new Error('planted: a crash');
    });
    await expect(client.lease(id, MINUTE_MS, crashing)).rejects.toThrow('planted');
    const answer = await client.lease(id, MINUTE_MS, after);
    const isRejected = limits[0] < limits[1];
    expect(statesOf(answer)).toEqual([
      isRejected ? 'rejected' : 'ready',
      ...nodes.slice(1).map(() => 'ready'),
    ]);
    expect(statesOf(await client.lease(id, MINUTE_MS, after))).toEqual(statesOf(answer));
    world.now += 2 * MINUTE_MS;
    await runGc(world.core, SPACE, 10_000);
  }
});

test('of two processes with other limits, the one that began first decides what is too large', async () => {
  const large = makeNode('z'.repeat(5000));
  const nodes = [large, ...manyNodes(COUNT - 1)];
  const id = await sent(nodes);
  const withLimit = (nodeBytesMax: number): Core => ({
    ...world.core,
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    settings: { ...world.core.settings, nodeBytesMax },
  });
  const later = beforeTransactions(withLimit(4096), beginPack, async (earlier) => {
    if (earlier > 0) return;
    const crashing = beforeTransactions(withLimit(8192), publishGroup, (groups) => {
      if (groups === 1) throw new Error('planted: a crash');
    });
    await expect(client.lease(id, MINUTE_MS, crashing)).rejects.toThrow('planted');
  });
  expect(new Set(statesOf(await client.lease(id, MINUTE_MS, later)))).toEqual(new Set(['ready']));
  expect((await client.use(id)).liveRecords).toBe(COUNT);
});
