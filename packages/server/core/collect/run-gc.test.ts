/** Collection: what is eligible, in which order, and every step of it beside other requests (docs/design.md, Collection). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import { readMetadata } from '../read/read-metadata.ts';
import { updateRootRefs } from '../refs/update-root-refs.ts';
import {
  CALLER,
  CoreWorld,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { runGc } from './run-gc.ts';
import { sweep } from './sweep.ts';

const NOTHING = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const gc = (maxNodes = 100) => runGc(world.core, SPACE, maxNodes);

async function isGone(node: CanonicalNode): Promise<boolean> {
  return (await world.row(node)) === undefined;
}

let requests = 0;
async function addRootRef(node: CanonicalNode, delta: number, domain = 'domain'): Promise<void> {
  requests += 1;
  const changes = [{ hash: node.hash, delta }];
  await updateRootRefs(world.core, SPACE, domain, { requestId: `r${requests}`, changes });
}

async function stateOf(node: CanonicalNode): Promise<string | undefined> {
  return (await world.row(node))?.state;
}

test('a lease protects until its expiry, not a millisecond longer', async () => {
  const node = smallNode(1);
  await world.publish(node);
  world.now += MINUTE_MS - 1;
  expect(await gc()).toEqual(NOTHING);
  world.now += 1;
  expect(await gc()).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: node.content.length });
  expect(await gc()).toEqual(NOTHING);
});

test('root refs protect, also where the balances of two domains cancel out; a waiting parent is never a candidate', async () => {
  const node = objectNode(1);
  const waiting = smallNode(2, [smallNode(3).hash]);
  await world.publish(node);
  await world.upload(waiting);
  await addRootRef(node, 2, 'alpha');
  await addRootRef(node, -2, 'beta');
  expect((await world.row(node))?.rootRefCount).toBe(0);
  world.now += MINUTE_MS;
  expect(await gc()).toEqual(NOTHING);
  await addRootRef(node, 2, 'beta');
  await addRootRef(node, -2, 'alpha');
  expect(await gc()).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: node.content.length });
  expect(await stateOf(waiting)).toBe('waiting');
});

test('the oldest expired lease goes first', async () => {
  const nodes = [objectNode(1), smallNode(2), objectNode(3), smallNode(4)];
  for (const node of nodes) {
    await world.publish(node);
    world.now += 1;
  }
  // The first is leased again, so it is now the youngest.
  await world.lease(nodes[0]!, 2 * MINUTE_MS);
  world.now += 2 * MINUTE_MS;
  for (const [index, node] of [nodes[1]!, nodes[2]!, nodes[3]!, nodes[0]!].entries()) {
    expect(await gc(1)).toMatchObject({ examined: 1, deleted: 1 });
    expect([index, await isGone(node)]).toEqual([index, true]);
  }
});

test.each([
  ['rows', smallNode],
  ['objects', objectNode],
] as const)(
  'children freed by a deletion go in the same pass, within its bound: bytes as %s',
  async (_, make) => {
    const leaf = make(1);
    const middle = make(2, [leaf.hash, leaf.hash]);
    const top = make(3, [middle.hash, leaf.hash]);
    await world.publish(leaf, middle, top);
    world.now += MINUTE_MS;
    expect(await gc(2)).toMatchObject({ examined: 2, deleted: 2 });
    expect(await isGone(leaf)).toBe(false);
    expect((await world.row(leaf))?.childRefCount).toBe(0);
    expect(await gc(2)).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: leaf.content.length });
  },
);

test('a storage failure ends the pass with 503; what went stays gone, the next pass finishes and reports the rest', async () => {
  const [early, late] = [objectNode(1), objectNode(2)];
  await world.publish(early);
  world.now += 1;
  await world.publish(late);
  world.now += MINUTE_MS;
  const { generation } = (await world.row(late))!;
  world.doors.delete = (step, which) =>
    which === generation ? Promise.reject(new Error('planted: the store cannot delete')) : step();
  expect(await failureOf(gc())).toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 503 });
  expect(await isGone(early)).toBe(true);
  expect(await stateOf(late)).toBe('claimed');
  expect(await failureOf((async () => readMetadata(world.core, SPACE, late.hash))())).toMatchObject({
    status: 404,
  });
  expect(await failureOf(readContent(world.core, SPACE, late.hash, undefined, CALLER))).toMatchObject({
    status: 404,
  });
  expect(await getUsage(world.core, SPACE)).toMatchObject({
    nodeCount: 1,
    notReadyNodeCount: 1,
    readyContentBytes: 0,
    reservedBytes: 0,
  });
  delete world.doors.delete;
  expect(await gc(1)).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: late.content.length });
  expect(world.objectFiles()).not.toContain(generation);
});

test('the sweep leaves a claim to the pass that works on it, however long it takes', async () => {
  await world.close();
  world = await CoreWorld.open({}, { workers: 2 });
  const beside = await world.openBeside();
  const nodes = [objectNode(1), objectNode(2), objectNode(3)];
  for (const heldMs of [9_999, 10_000]) {
    await world.publish(...nodes);
    world.now += MINUTE_MS;
    const deleting = world.holdDeletes();
    const pass = gc();
    await deleting.reached;
    world.now += heldMs;
    expect(await sweep(beside)).toMatchObject({ moreToDo: false });
    const isLeft = heldMs < 10_000;
    expect(await Promise.all(nodes.map(isGone))).toEqual(nodes.map(() => !isLeft));
    deleting.open();
    const count = isLeft ? nodes.length : 0;
    expect(await pass).toMatchObject({ examined: count, deleted: count });
    delete world.doors.delete;
  }
});

test('a pass finishes claims of any other pass, and each node is reported by the pass that removed its row', async () => {
  await world.close();
  world = await CoreWorld.open({}, { workers: 2 });
  const beside = await world.openBeside();
  const nodes = [objectNode(1), objectNode(2), objectNode(3)];
  await world.publish(...nodes);
  world.now += MINUTE_MS;
  const deleting = world.holdDeletes();
  const pass = gc();
  await deleting.reached;
  expect(await runGc(beside, SPACE, 2)).toMatchObject({ examined: 2, deleted: 2 });
  deleting.open();
  expect(await pass).toMatchObject({ examined: 1, deleted: 1 });
  expect(await Promise.all(nodes.map(isGone))).toEqual([true, true, true]);
});

/** The nodes in the order in which a pass takes them; objects of `bad` cannot be deleted until the door is taken away. */
async function publishInOrder(nodes: readonly CanonicalNode[], bad: readonly CanonicalNode[]): Promise<void> {
  for (const node of nodes) {
    await world.publish(node);
    world.now += 1;
  }
  world.now += MINUTE_MS;
  const rows = await Promise.all(bad.map((node) => world.row(node)));
  const stuck = new Set(rows.map((row) => row?.generation));
  world.doors.delete = (step, generation) =>
    stuck.has(generation) ? Promise.reject(new Error('planted: this one cannot be deleted')) : step();
}

const some = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => objectNode(from + index));

test('an object that cannot be deleted delays no other, and each pass that meets it ends with 503', async () => {
  const [bad, ...others] = some(0, 6) as [CanonicalNode, ...CanonicalNode[]];
  await publishInOrder([bad, ...others], [bad]);
  expect(await failureOf(gc())).toMatchObject({
    status: 503,
    message: expect.stringMatching(/^the bytes of 1 node could not be deleted; 5 nodes were collected/),
  });
  expect(await Promise.all(others.map(isGone))).toEqual(others.map(() => true));
  const later = some(10, 3);
  const door = world.doors.delete!;
  await publishInOrder(later, []);
  world.doors.delete = door;
  expect(await failureOf(gc())).toMatchObject({ status: 503 });
  expect(await Promise.all(later.map(isGone))).toEqual([true, true, true]);
  expect(await stateOf(bad)).toBe('claimed');
  delete world.doors.delete;
  expect(await gc()).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: bad.content.length });
});

test('an undeletable object among small nodes does not end the pass at its batch', async () => {
  const bad = some(0, 2);
  const small = Array.from({ length: 250 }, (_, index) => smallNode(index + 1000));
  await publishInOrder([...bad, ...small], bad);
  expect(await failureOf(gc(1000))).toMatchObject({
    status: 503,
    message: expect.stringMatching(/^the bytes of 2 nodes could not be deleted; 250 nodes were collected/),
  });
  expect(await getUsage(world.core, SPACE)).toMatchObject({ nodeCount: 2 });
});

test('more undeletable objects than a pass takes delay neither candidates nor claims that can be finished', async () => {
  const bad = some(0, 3);
  const finishable = objectNode(3);
  await publishInOrder([...bad, finishable], [...bad, finishable]);
  for (let passes = 0; passes < 4; passes += 1) await failureOf(gc(1));
  expect(await Promise.all([...bad, finishable].map(stateOf))).toEqual(Array(4).fill('claimed'));
  const later = some(10, 2);
  await publishInOrder(later, bad);
  for (let passes = 0; passes < 4; passes += 1) {
    await gc(1).catch(() => undefined);
    world.now += 1;
  }
  expect(await Promise.all([...later, finishable].map(isGone))).toEqual([true, true, true]);
  delete world.doors.delete;
});

test('a pass stops asking a store that is away, and claims little that cannot be deleted', async () => {
  await publishInOrder(some(0, 12), some(0, 12));
  expect(await failureOf(gc(10))).toMatchObject({ status: 503 });
  const later = some(20, 20);
  await publishInOrder(later, [...some(0, 12), ...later]);
  let asked = 0;
  const door = world.doors.delete!;
  world.doors.delete = (...given) => {
    asked += 1;
    return door(...given);
  };
  expect(await failureOf(gc())).toMatchObject({ status: 503 });
  expect(asked).toBe(10 + 8);
  expect((await Promise.all(later.map(stateOf))).filter((state) => state === 'claimed')).toHaveLength(6);
  delete world.doors.delete;
  expect(await gc()).toMatchObject({ examined: 32, deleted: 32 });
});

test('processes that collect at once report each collected node exactly once', async () => {
  await world.close();
  world = await CoreWorld.open({}, { workers: 3 });
  const cores = [world.core, await world.openBeside(), await world.openBeside()];
  const nodes = Array.from({ length: 40 }, (_, index) => (index % 3 === 0 ? smallNode : objectNode)(index));
  await world.publish(...nodes);
  world.now += MINUTE_MS;
  const passes = cores.flatMap((core) => [runGc(core, SPACE, 7), runGc(core, SPACE, 100)]);
  const [results] = await Promise.all([Promise.all(passes), ...cores.map((core) => sweep(core))]);
  expect(results.reduce((sum, { deleted }) => sum + deleted, 0)).toBe(nodes.length);
  expect(results.reduce((sum, { examined }) => sum + examined, 0)).toBe(nodes.length);
  expect(await Promise.all(nodes.map(isGone))).toEqual(nodes.map(() => true));
});

test('two passes at once delete each node once', async () => {
  const nodes = [objectNode(1), smallNode(2), objectNode(3), smallNode(4)];
  await world.publish(...nodes);
  world.now += MINUTE_MS;
  const results = await Promise.all([gc(), gc(), gc(3)]);
  expect(results.reduce((sum, { deleted }) => sum + deleted, 0)).toBe(4);
  expect(await Promise.all(nodes.map(isGone))).toEqual([true, true, true, true]);
});

test('a claim is a leftover once its pass has failed, and the sweep finishes it', async () => {
  const node = objectNode(1);
  await world.publish(node);
  world.now += MINUTE_MS;
  world.doors.delete = () => Promise.reject(new Error('planted: the store cannot delete'));
  await failureOf(gc());
  expect(await stateOf(node)).toBe('claimed');
  delete world.doors.delete;
  await world.sweepAll();
  expect(await isGone(node)).toBe(true);
});

test('a lease revives a claimed node while its pass is deleting: the pass forgets nothing, the new bytes stay', async () => {
  const child = objectNode(1);
  const node = objectNode(2, [child.hash]);
  await world.publish(child, node);
  world.now += MINUTE_MS;
  const deleting = world.holdDeletes();
  const pass = gc(1);
  await deleting.reached;
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  expect((await world.row(child))?.childRefCount).toBe(1);
  await world.put(await world.begin(node), node.bytes);
  expect(await world.lease(node)).toMatchObject({
    state: 'ready',
    leaseStartedAt: world.now,
    leaseExpiresAt: world.now + MINUTE_MS,
  });
  deleting.open();
  expect(await pass).toEqual({ examined: 1, deleted: 0, reclaimedContentBytes: 0 });
  expect((await world.row(child))?.childRefCount).toBe(1);
  const { body } = await readContent(world.core, SPACE, node.hash, undefined, CALLER);
  expect(body).toEqual(node.content);
});

test("a parent that begins to wait for a claimed child keeps its edge when the child's row goes", async () => {
  const child = objectNode(1);
  const parent = smallNode(2, [child.hash, child.hash]);
  await world.publish(child);
  world.now += MINUTE_MS;
  const deleting = world.holdDeletes();
  const pass = gc();
  await deleting.reached;
  expect(await world.upload(parent)).toMatchObject({ childHashes: [child.hash] });
  expect((await world.row(child))?.childRefCount).toBe(2);
  deleting.open();
  expect(await pass).toMatchObject({ deleted: 1 });
  expect(await world.looseEdges(child)).toBe(2);
  delete world.doors.delete;
  await world.publish(child);
  expect(await world.looseEdges(child)).toBe(0);
  expect((await world.row(child))?.childRefCount).toBe(2);
  expect((await world.lease(parent)).state).toBe('ready');
});

test('an upload that was to revive a row that is now gone publishes a new node, by all rules of publishing', async () => {
  const child = smallNode(1);
  const node = objectNode(2, [child.hash]);
  await world.publish(child, node);
  world.now += MINUTE_MS;
  world.doors.delete = () => Promise.reject(new Error('planted: the store cannot delete'));
  await failureOf(gc(1));
  delete world.doors.delete;
  await world.put(await world.begin(node), node.bytes);
  expect(await gc()).toMatchObject({ examined: 2, deleted: 2 });
  expect(await world.lease(node)).toMatchObject({ childHashes: [child.hash] });
  await world.publish(child);
  expect((await world.lease(node)).state).toBe('ready');
  expect((await world.row(child))?.childRefCount).toBe(1);
});

test('rotten nodes are collected like ready ones, with their bytes already lost', async () => {
  const [lost, flipped] = [objectNode(1), smallNode(2)];
  await world.publish(lost, flipped);
  await world.spoil(lost, 'lost');
  await world.spoil(flipped, 'flipped');
  for (const node of [lost, flipped]) {
    expect(await failureOf(readContent(world.core, SPACE, node.hash, undefined, CALLER))).toMatchObject({
      status: 503,
    });
  }
  expect(await gc()).toEqual(NOTHING);
  world.now += MINUTE_MS;
  expect(await gc()).toMatchObject({ examined: 2, deleted: 2 });
});

test('claims of a killed server are finished by the first pass after its restart', async () => {
  const nodes = [objectNode(1), objectNode(2)];
  await world.publish(...nodes);
  world.now += MINUTE_MS;
  const deleting = world.holdDeletes();
  const killed = gc().catch((error: unknown) => error);
  await deleting.reached;
  await world.restart();
  delete world.doors.delete;
  expect(await gc()).toMatchObject({ examined: 2, deleted: 2 });
  deleting.open();
  expect(await killed).toBeInstanceOf(Error);
});

test('a pass that fails before it forgets is finished after a restart', async () => {
  const node = objectNode(1);
  await world.publish(node);
  world.now += MINUTE_MS;
  world.doors.delete = async (step) => {
    await step();
    throw new Error('planted: the answer of the store was lost');
  };
  await failureOf(gc());
  delete world.doors.delete;
  await world.restart();
  expect(await stateOf(node)).toBe('claimed');
  expect(await gc()).toEqual({ examined: 1, deleted: 1, reclaimedContentBytes: node.content.length });
});
