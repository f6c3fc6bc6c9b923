/** What goes when nobody asks for it any more, what must not, and failures on the way (docs/design.md, What the sweep removes). */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import { TOMBSTONE_MS } from '../stray-watch.ts';
import {
  CALLER,
  CoreWorld,
  DAY_MS,
  failureOf,
  Gate,
  MINUTE_MS,
  objectNode,
  SlowBody,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { runGc } from './run-gc.ts';
import { sweep } from './sweep.ts';

/** More than the engine takes to walk over all its folders. */
const STRAY_WALK_STEPS = 20;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const findUpload = async (node: { hash: string }) => world.core.metadata.findUpload(SPACE, node.hash);

test('a waiting parent goes 24 h after its last lease call, with its edges; a lease call starts the day anew', async () => {
  const [ready, missing] = [objectNode(1), smallNode(2)];
  await world.publish(ready);
  const parent = objectNode(3, [ready.hash, missing.hash]);
  await world.upload(parent);
  world.now += DAY_MS - 1;
  await world.lease(parent);
  await world.lease(ready, 3 * DAY_MS);
  world.now += DAY_MS - 1;
  await world.sweepAll();
  expect(await world.row(parent)).toMatchObject({ state: 'waiting' });
  expect((await world.row(ready))?.childRefCount).toBe(1);
  expect((await getUsage(world.core, SPACE)).reservedBytes).toBe(parent.bytes.length);
  world.now += 1;
  await world.sweepAll();
  expect(await world.row(parent)).toBeUndefined();
  expect((await world.row(ready))?.childRefCount).toBe(0);
  expect(await world.looseEdges(missing)).toBe(0);
  expect((await getUsage(world.core, SPACE)).reservedBytes).toBe(0);
  expect(world.objectFiles()).toHaveLength(1);
});

test('each waiting parent of a chain goes by its own 24 h; edges to one that went stay as loose edges', async () => {
  const leaf = smallNode(1);
  const middle = smallNode(2, [leaf.hash]);
  const top = smallNode(3, [middle.hash, leaf.hash]);
  await world.upload(middle);
  await world.upload(top);
  world.now += DAY_MS - 1;
  await world.lease(top);
  world.now += 1;
  await world.sweepAll();
  expect(await world.row(middle)).toBeUndefined();
  expect([await world.looseEdges(middle), await world.looseEdges(leaf)]).toEqual([1, 1]);
  expect(await world.upload(middle)).toMatchObject({ childHashes: [leaf.hash] });
  expect((await world.row(middle))?.childRefCount).toBe(1);
  world.now += DAY_MS;
  await world.sweepAll();
  expect([await world.row(middle), await world.row(top)]).toEqual([undefined, undefined]);
  expect([await world.looseEdges(middle), await world.looseEdges(leaf)]).toEqual([0, 0]);
});

test('an unfinished upload, its bytes and its rejection stay for 24 h after its URL expired or the last lease call', async () => {
  const [uploaded, rejected] = [objectNode(1), smallNode(2)];
  await world.put(await world.begin(uploaded), uploaded.bytes);
  await world.put(await world.begin(rejected), smallNode(3).bytes);
  const { upload } = await world.begin(rejected);
  world.now = upload.expiresAt + DAY_MS - 1;
  await world.sweepAll();
  expect(await findUpload(uploaded)).toBeDefined();
  expect(await findUpload(rejected)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
  world.now += 1;
  await world.sweepAll();
  expect([await findUpload(uploaded), await findUpload(rejected)]).toEqual([undefined, undefined]);
  expect(world.objectFiles()).toEqual([]);
  expect((await world.lease(uploaded)).state).toBe('awaiting_upload');
  expect((await world.lease(rejected)).state).toBe('awaiting_upload');
});

test('a lease within the 24 h still finds the uploaded bytes', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  await world.put({ state: 'awaiting_upload', hash: node.hash, upload }, node.bytes);
  world.now = upload.expiresAt + DAY_MS - 1;
  await world.sweepAll();
  expect((await world.lease(node)).state).toBe('ready');
});

test('an upload that is still being received is not swept', async () => {
  const node = objectNode(1);
  const body = new SlowBody(node.bytes);
  const put = world.put(await world.begin(node), body);
  world.now += 3 * DAY_MS;
  await world.sweepAll();
  body.finish();
  await put;
  expect((await world.lease(node)).state).toBe('ready');
});

test('a rotten node is never dropped by the 24 h rule, nor is its row by the end of its healing upload', async () => {
  const node = objectNode(1);
  await world.publish(node);
  await world.lease(node, DAY_MS);
  await world.spoil(node, 'flipped');
  await failureOf(readContent(world.core, SPACE, node.hash, undefined, CALLER));
  await world.begin(node);
  world.now += 3 * DAY_MS;
  await world.sweepAll();
  expect(await findUpload(node)).toBeUndefined();
  expect(await world.row(node)).toMatchObject({ state: 'rotten' });
  expect((await world.upload(node)).state).toBe('ready');
});

test('an object that cannot be deleted holds up neither other objects nor the claims of interrupted passes', async () => {
  const uploads = [objectNode(1), objectNode(2), objectNode(3)];
  for (const node of uploads) await world.put(await world.begin(node), node.bytes);
  const stuck = (await findUpload(uploads[0]!))!.generation;
  const collected = objectNode(4);
  await world.publish(collected);
  world.now += 3 * DAY_MS;
  world.doors.delete = () => Promise.reject(new Error('planted: the store cannot delete'));
  await failureOf(runGc(world.core, SPACE, 1));
  expect((await world.row(collected))?.state).toBe('claimed');
  world.doors.delete = (step, generation) =>
    generation === stuck ? Promise.reject(new Error('planted: this one cannot be deleted')) : step();
  await expect(sweep(world.core)).rejects.toThrow('this one');
  expect(await world.row(collected)).toBeUndefined();
  expect(world.objectFiles()).toEqual([stuck]);
  delete world.doors.delete;
  await world.sweepAll();
  expect(world.objectFiles()).toEqual([]);
});

test('a good object whose generation a bad overlapping PUT had finished before a crash is no record’s, and goes', async () => {
  const node = objectNode(1);
  const instruction = await world.begin(node);
  const sealed = new Gate();
  world.doors.seal = async (step) => {
    const isSealed = await step();
    await sealed.pass();
    return isSealed;
  };
  const good = world.put(instruction, node.bytes).catch((error: unknown) => error);
  await sealed.reached;
  await world.put(instruction, smallNode(2).bytes);
  await world.restart();
  delete world.doors.seal;
  sealed.open();
  expect(await good).toBeInstanceOf(Error);
  const generation = world.objectFiles()[0] as string;
  expect((await findUpload(node))?.generation).toBe(generation);
  expect(await world.upload(node)).toMatchObject({ state: 'ready' });
  expect(world.objectFiles()).toHaveLength(2);
  world.now += DAY_MS;
  await world.lease(node, DAY_MS);
  for (let steps = 0; steps < STRAY_WALK_STEPS; steps += 1) await world.sweepAll();
  expect(world.objectFiles()).toHaveLength(2);
  // Once the walk has found it without a record for a week.
  await world.lease(node, 30 * DAY_MS);
  world.now += TOMBSTONE_MS;
  for (let steps = 0; steps < STRAY_WALK_STEPS; steps += 1) await world.sweepAll();
  expect(world.objectFiles()).toEqual([(await world.row(node))!.generation]);
});

test('any number of discards that cannot be deleted delay no other', async () => {
  const name = (index: number): string => index.toString(16).padStart(32, '0');
  const good = name(1000);
  const dueAt = world.now;
  await world.core.metadata.transact(SPACE, async (tx) => {
    for (let index = 0; index < 120; index += 1) {
      await tx.insert('discard', { generation: name(index), dueAt: dueAt - 1000, urlExpiresAt: 0 });
    }
    await tx.insert('discard', { generation: good, dueAt, urlExpiresAt: 0 });
  });
  world.doors.delete = (step, generation) =>
    generation === good ? step() : Promise.reject(new Error('planted: this one cannot be deleted'));
  for (let sweeps = 0; sweeps < 2; sweeps += 1) {
    world.now += 1;
    await expect(sweep(world.core)).rejects.toThrow('this one');
  }
  const left = await world.core.metadata.transact(SPACE, (tx) => tx.due('discards', world.now, 1000));
  expect(left).toHaveLength(120);
  expect(left.map(({ generation }) => generation)).not.toContain(good);
});

test('two sweeps at once leave what one sweep leaves', async () => {
  const parent = objectNode(1, [smallNode(2).hash]);
  await world.upload(parent);
  await world.put(await world.begin(objectNode(3)), objectNode(3).bytes);
  world.now += 2 * DAY_MS;
  await Promise.all([sweep(world.core), sweep(world.core), sweep(world.core)]);
  await world.sweepAll();
  expect(await getUsage(world.core, SPACE)).toMatchObject({ nodeCount: 0, reservedBytes: 0 });
  expect(world.objectFiles()).toEqual([]);
});

test('a node that the scrub made ready again outlives the healing upload it was waiting for', async () => {
  const node = objectNode(1);
  await world.publish(node);
  await world.lease(node, DAY_MS);
  await world.spoil(node, 'lost');
  await failureOf(readContent(world.core, SPACE, node.hash, undefined, CALLER));
  await world.put(await world.begin(node), node.bytes);
  await world.mend(node);
  await world.core.metadata.transact(SPACE, async (tx) => {
    const row = (await tx.findNode(node.hash))!;
    await tx.update('node', row, { ...row, state: 'ready' });
  });
  world.now += MINUTE_MS;
  expect((await world.lease(node)).state).toBe('ready');
  world.now += 2 * DAY_MS;
  await world.sweepAll();
  expect(await findUpload(node)).toBeUndefined();
  const { body } = await readContent(world.core, SPACE, node.hash, undefined, CALLER);
  expect(body).toEqual(node.content);
});

test('the place of the walk over all objects is kept with the rows, and the next walk is judged by itself', async () => {
  const place = () => world.core.metadata.page('note', 'stray-walk');
  const begun = spyOn(world.core.strays, 'begin');
  world.now += 2 * DAY_MS;
  await sweep(world.core);
  const first = await place();
  expect(first).toBeTruthy();
  await sweep(world.core);
  expect(Number(await place())).toBeGreaterThan(Number(first));
  expect(begun).not.toHaveBeenCalled();
  for (let step = 0; step < STRAY_WALK_STEPS && (await place()) !== ''; step += 1) await sweep(world.core);
  expect(await place()).toBe('');
  expect(begun).toHaveBeenCalledTimes(1);
});
