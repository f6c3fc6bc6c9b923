/** Reads, rot and the scrub: what counts as proof, and reads beside collections and healings (docs/design.md, Rot and healing). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { runGc } from '../collect/run-gc.ts';
import { scrub } from '../collect/scrub.ts';
import { createdAtOf } from '../generation.ts';
import { StoreUnavailable } from '../store-failure.ts';
import {
  CALLER,
  CoreWorld,
  failureOf,
  Gate,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { readContent } from './read-content.ts';
import { readMetadata } from './read-metadata.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const read = (node: { hash: string }, range?: string) =>
  readContent(world.core, SPACE, node.hash, range, CALLER);
const stateOf = async (node: { hash: string }) =>
  (await world.core.metadata.findNode(SPACE, node.hash))?.state;

test.each([
  ['a row', smallNode(1)],
  ['an object', objectNode(1)],
] as const)('ranges speak of the content, bytes as %s', async (_, node) => {
  await world.publish(node);
  const size = node.content.length;
  expect(await read(node)).toEqual({
    status: 200,
    contentType: node.contentType,
    size,
    start: 0,
    end: size,
    body: node.content,
  });
  expect(await read(node, 'bytes=1-2')).toMatchObject({
    status: 206,
    start: 1,
    end: 3,
    body: node.content.slice(1, 3),
  });
  expect(await failureOf(read(node, `bytes=${size}-`))).toMatchObject({
    code: 'INVALID_REQUEST',
    status: 416,
    headers: { 'content-range': `bytes */${size}` },
  });
});

test('a read of the rows that fails once is no proof', async () => {
  const node = smallNode(1);
  await world.publish(node);
  const { metadata } = world.core;
  let isFailing = true;
  const failingOnce = new Proxy(metadata, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'findNodeWithContent' || !isFailing) return value.bind(target);
      return () => {
        isFailing = false;
        throw new StoreUnavailable('the disk failed one read', { isDamage: true });
      };
    },
  });
  const answer = readContent({ ...world.core, metadata: failingOnce }, SPACE, node.hash, undefined, CALLER);
  expect(await answer).toMatchObject({ status: 200, body: node.content });
  expect([isFailing, await stateOf(node)]).toEqual([false, 'ready']);
});

test.each([
  ['a row, flipped', smallNode(1), 'flipped'],
  ['a row, lost', smallNode(1), 'lost'],
  ['an object, flipped', objectNode(1), 'flipped'],
  ['an object, lost', objectNode(1), 'lost'],
] as const)('damage answers 503 until it is healed, and metadata answers on: %s', async (_, node, how) => {
  await world.publish(node);
  await world.spoil(node, how);
  for (const range of [undefined, 'bytes=0-0', 'bytes=9999999-']) {
    // Once the damage is known the answer is 503, even for an invalid range.
    expect(await failureOf(read(node, range))).toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 503 });
  }
  expect(await stateOf(node)).toBe('rotten');
  expect((await readMetadata(world.core, SPACE, node.hash)).metadata.size).toBe(node.content.length);
  expect((await world.upload(node)).state).toBe('ready');
  expect((await read(node)).body).toEqual(node.content);
});

test('a store that fails proves nothing: 503 and the row stays ready', async () => {
  const node = objectNode(1);
  await world.publish(node);
  for (const failure of [
    new StoreUnavailable('planted'),
    Object.assign(new Error('planted'), { code: 'EIO' }),
  ]) {
    world.doors.read = () => Promise.reject(failure);
    await expect(read(node)).rejects.toBe(failure);
    world.doors.verify = () => Promise.reject(failure);
    expect(await scrub(world.core, undefined)).toMatchObject({ foundRotten: 0, foundSound: 0 });
    expect(await stateOf(node)).toBe('ready');
  }
  delete world.doors.read;
  expect((await read(node)).body).toEqual(node.content);
});

test('the scrub names each node that it cannot read, and goes on with the others', async () => {
  const nodes = [objectNode(1), objectNode(2), objectNode(3)].sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const [unread, lost] = nodes;
  await world.publish(...nodes);
  await world.spoil(lost!, 'lost');
  let verified = 0;
  world.doors.verify = (step) => {
    verified += 1;
    return verified === 1 ? Promise.reject(new StoreUnavailable('reading failed (EIO)')) : step();
  };
  expect(await scrub(world.core, undefined)).toMatchObject({ next: undefined, foundRotten: 1 });
  expect(await Promise.all(nodes.map(stateOf))).toEqual(['ready', 'rotten', 'ready']);
  expect(world.rotReports).toMatchObject([
    { kind: 'unread', space: SPACE, hash: unread!.hash, reason: 'reading failed (EIO)' },
    { kind: 'rotten', space: SPACE, hash: lost!.hash },
  ]);
  await world.mend(lost!);
});

test('bytes that a collection deletes during a read are no proof of rot', async () => {
  const node = objectNode(1);
  await world.publish(node);
  world.now += MINUTE_MS;
  const gate = new Gate();
  world.doors.read = async (step) => {
    await gate.pass();
    return step();
  };
  const reading = failureOf(read(node));
  await gate.reached;
  expect(await runGc(world.core, SPACE, 1)).toMatchObject({ deleted: 1 });
  gate.open();
  expect(await reading).toMatchObject({ code: 'NOT_FOUND' });
});

test('a read that loses the old bytes to a healing continues with the new ones', async () => {
  const node = objectNode(1);
  await world.publish(node);
  const gate = new Gate();
  world.doors.read = async (step) => {
    delete world.doors.read;
    await gate.pass();
    return step();
  };
  const reading = read(node);
  await gate.reached;
  await world.spoil(node, 'lost');
  await failureOf(read(node));
  await world.upload(node);
  gate.open();
  expect((await reading).body).toEqual(node.content);
  expect(await stateOf(node)).toBe('ready');
});

test('the scrub leaves young bytes to its next walk, but not those of a rotten node', async () => {
  const [young, rotten] = [smallNode(1), smallNode(2)];
  await world.publish(young, rotten);
  await world.spoil(rotten, 'flipped');
  await scrub(world.core, undefined);
  await world.spoil(young, 'flipped');
  expect(await scrub(world.core, undefined, 0)).toMatchObject({ nodes: 1, young: 1, foundRotten: 0 });
  expect(await stateOf(young)).toBe('ready');
  const { generation } = (await world.core.metadata.findNode(SPACE, young.hash)) ?? { generation: '' };
  const after = createdAtOf(generation) + 1;
  expect(await scrub(world.core, undefined, after)).toMatchObject({ nodes: 2, young: 0, foundRotten: 1 });
});

test('the scrub finds rot before a reader does, and makes a node ready again whose bytes are good', async () => {
  const [small, object, whole] = [smallNode(1), objectNode(2), objectNode(3)];
  await world.publish(small, object, whole);
  await world.spoil(small, 'flipped');
  await world.spoil(object, 'lost');
  const bytes = [small, object, whole].reduce((sum, node) => sum + node.bytes.length, 0);
  expect(await scrub(world.core, undefined)).toEqual({
    next: undefined,
    nodes: 3,
    young: 0,
    bytes,
    foundRotten: 2,
    foundSound: 0,
  });
  expect(await Promise.all([small, object, whole].map(stateOf))).toEqual(['rotten', 'rotten', 'ready']);
  expect(await scrub(world.core, undefined)).toMatchObject({ foundRotten: 0, foundSound: 0 });
  await world.mend(small);
  await world.mend(object);
  expect(await scrub(world.core, undefined)).toMatchObject({ foundRotten: 0, foundSound: 2 });
  expect((await read(object)).body).toEqual(object.content);
});

test('bytes that fit their checksums and not their hash are rot all the same', async () => {
  const [node, other] = [smallNode(1), smallNode(2)];
  await world.publish(node, other);
  const [own, foreign] = [(await world.row(node))!.generation, (await world.row(other))!.generation];
  await world.core.metadata.transact(SPACE, async (tx) => {
    const content = (await tx.findContent(foreign))!;
    await tx.delete('content', own);
    await tx.insert('content', { ...content, generation: own });
  });
  expect(await scrub(world.core, undefined)).toMatchObject({ foundRotten: 1 });
  expect(await Promise.all([node, other].map(stateOf))).toEqual(['rotten', 'ready']);
});

test('what a scrub reads while a collection deletes it is not reported as rot', async () => {
  const node = objectNode(1);
  await world.publish(node);
  world.now += MINUTE_MS;
  const gate = new Gate();
  world.doors.verify = async (step) => {
    await gate.pass();
    return step();
  };
  const scrubbing = scrub(world.core, undefined);
  await gate.reached;
  await runGc(world.core, SPACE, 1);
  gate.open();
  expect(await scrubbing).toMatchObject({ foundRotten: 0 });
});

test('a waiting parent is no ready node: its content and metadata are 404', async () => {
  const parent = smallNode(1, [smallNode(2).hash]);
  await world.upload(parent);
  expect(await failureOf(read(parent))).toMatchObject({ code: 'NOT_FOUND' });
  expect(await failureOf((async () => readMetadata(world.core, SPACE, parent.hash))())).toMatchObject({
    code: 'NOT_FOUND',
  });
});
