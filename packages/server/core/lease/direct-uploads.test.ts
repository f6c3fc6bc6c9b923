/**
 * The lease machine, collection and sweep where clients write to the content store themselves (docs/design.md, Direct uploads). The
 * store accepts anything, late, and again after a deletion.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { runGc } from '../collect/run-gc.ts';
import { sweep } from '../collect/sweep.ts';
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
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';

const URL_LIFE_MS = 5 * MINUTE_MS;
/** core/lease/lease-decision.ts: how long after the end of its URL a PUT may still be on its way */
const PUT_DURATION_MS = 10 * MINUTE_MS;
const NODE_BYTES_MAX = 128 * 1024;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open({ activeUploadsMax: 3 }, { isDirect: true });
});
afterEach(() => world.close());

const gc = () => runGc(world.core, SPACE, 100);
const generationOf = async (node: { hash: string }) =>
  (await world.core.metadata.findUpload(SPACE, node.hash))?.generation;

/** The content that a read of the node gives now. */
async function contentOf(node: { hash: string }): Promise<unknown> {
  const { body } = await readContent(world.core, SPACE, node.hash, undefined, CALLER);
  return body;
}

test('after lease, PUT to the store and lease the node is ready, and its key records how long its URLs live', async () => {
  const node = smallNode(1);
  const { upload } = await world.begin(node);
  expect(upload).toEqual({
    method: 'PUT',
    url: expect.stringMatching(/^direct:/),
    expiresAt: world.now + URL_LIFE_MS,
    headers: { 'if-none-match': '*' },
  });
  world.now += MINUTE_MS;
  const signedAnew = await world.begin(node);
  expect(world.direct.put(upload.url, node.bytes)).toBe(200);
  expect(world.direct.put(signedAnew.upload.url, node.bytes)).toBe(412);
  expect((await world.lease(node)).state).toBe('ready');
  expect(await contentOf(node)).toEqual(node.content);
  const found = await world.core.metadata.findNodeWithContent(SPACE, node.hash);
  expect(found?.node.storage).toBe('object');
  expect(found?.content?.urlExpiresAt).toBe(signedAnew.upload.expiresAt);
});

test('an upload instruction ends when the store stops accepting it, in whole seconds', async () => {
  world.now += 700;
  const { upload } = await world.begin(smallNode(1));
  expect(upload.expiresAt).toBe(world.now - 700 + URL_LIFE_MS);
  const generation = await generationOf(smallNode(1));
  world.now = upload.expiresAt - 1;
  await world.begin(smallNode(2));
  expect(await generationOf(smallNode(1))).toBe(generation);
  world.now = upload.expiresAt;
  await world.begin(smallNode(1));
  expect(await generationOf(smallNode(1))).not.toBe(generation);
});

test('the server takes no uploads itself', async () => {
  const node = smallNode(1);
  const begun = await world.begin(node);
  expect(await failureOf(world.put(begun, node.bytes))).toMatchObject({ code: 'NOT_FOUND' });
});

test('parents wait for their children, and a waiting parent protects them', async () => {
  const child = objectNode(1);
  const parent = objectNode(2, [child.hash, child.hash]);
  expect(await world.upload(parent)).toMatchObject({ childHashes: [child.hash] });
  expect((await world.upload(child)).state).toBe('ready');
  expect((await world.lease(parent)).state).toBe('ready');
  expect((await world.row(child))?.childRefCount).toBe(2);
});

test('a PUT that began in time and landed late is accepted by the next lease of its generation', async () => {
  const node = objectNode(1);
  const land = world.direct.beginPut((await world.begin(node)).upload.url);
  world.now += URL_LIFE_MS;
  expect(land(node.bytes)).toBe(200);
  expect((await world.lease(node)).state).toBe('ready');
});

test('a PUT that lands after its generation was replaced changes nothing, and its object goes', async () => {
  const node = objectNode(1);
  const late = world.direct.beginPut((await world.begin(node)).upload.url);
  const first = await generationOf(node);
  world.now += URL_LIFE_MS;
  const { upload } = await world.begin(node);
  expect(await generationOf(node)).not.toBe(first);
  await world.sweepAll();
  expect(late(objectNode(2).bytes)).toBe(200);
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  expect(world.direct.put(upload.url, node.bytes)).toBe(200);
  expect((await world.lease(node, DAY_MS)).state).toBe('ready');
  world.now += PUT_DURATION_MS - 1;
  await world.sweepAll();
  expect(world.direct.generations).toHaveLength(2);
  world.now += 1;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([(await world.row(node))!.generation]);
  expect(await contentOf(node)).toEqual(node.content);
});

test('bytes over the limit are accepted by the store, and the next lease says NODE_TOO_LARGE', async () => {
  const node = objectNode(1);
  expect(await world.upload(node, new Uint8Array(NODE_BYTES_MAX + 1))).toMatchObject({
    state: 'awaiting_replacement_upload',
    rejection: { code: 'NODE_TOO_LARGE' },
  });
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
  expect((await world.upload(node)).state).toBe('ready');
});

test('rejected bytes go at once, and again until their URL has expired: a replay is never accepted', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, objectNode(2).bytes);
  const rejected = await world.lease(node);
  expect(rejected).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
  expect(world.direct.put(upload.url, node.bytes)).toBe(200);
  expect(await world.lease(node)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
  await world.sweepAll();
  expect(world.direct.generations).toHaveLength(1);
  world.now = upload.expiresAt - 1;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
  expect(world.direct.put(upload.url, node.bytes)).toBe(200);
  world.now += 1;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
  world.now = upload.expiresAt;
  expect((await world.upload(node)).state).toBe('ready');
});

test('a collected object that its URL brings back is never read, and goes when the URL has expired', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, node.bytes);
  await world.lease(node);
  world.now += MINUTE_MS;
  expect(await gc()).toMatchObject({ deleted: 1 });
  expect(world.direct.generations).toEqual([]);
  expect(world.direct.put(upload.url, node.bytes)).toBe(200);
  await world.sweepAll();
  expect(world.direct.generations).toHaveLength(1);
  expect(await failureOf(contentOf(node))).toMatchObject({ code: 'NOT_FOUND' });
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  world.now = upload.expiresAt;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
});

test('bytes replayed between the delete and the end of its record are deleted too, though the URL has expired', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, node.bytes);
  await world.lease(node);
  world.now = upload.expiresAt - 1;
  world.doors.delete = async (step) => {
    await step();
    expect(world.direct.put(upload.url, node.bytes)).toBe(200);
    world.now += 1;
  };
  expect(await gc()).toMatchObject({ deleted: 1 });
  delete world.doors.delete;
  expect(world.direct.generations).toHaveLength(1);
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
});

test('a node whose URLs have expired is deleted once, because no replay is possible', async () => {
  const node = objectNode(1);
  expect((await world.upload(node)).state).toBe('ready');
  world.now += URL_LIFE_MS;
  expect(await gc()).toMatchObject({ deleted: 1 });
  const deleted: string[] = [];
  world.doors.delete = async (step, generation) => {
    deleted.push(generation);
    await step();
  };
  await world.sweepAll();
  expect(deleted).toEqual([]);
});

test('a healed node lets go of its old key twice too', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, node.bytes);
  await world.lease(node, DAY_MS);
  const old = (await world.row(node))!.generation;
  await world.direct.delete(SPACE, [old]);
  expect(await failureOf(contentOf(node))).toMatchObject({ status: 503 });
  expect((await world.upload(node)).state).toBe('ready');
  await world.sweepAll();
  expect(world.direct.put(upload.url, objectNode(2).bytes)).toBe(200);
  expect(await contentOf(node)).toEqual(node.content);
  world.now = upload.expiresAt;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([(await world.row(node))!.generation]);
});

test('a discard that is renewed while its object is being deleted is kept', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, objectNode(2).bytes);
  await world.lease(node);
  const [stray] = world.direct.generations;
  world.now = upload.expiresAt;
  const deleting = new Gate();
  world.doors.delete = async (step) => {
    await step();
    await deleting.pass();
  };
  const sweeping = sweep(world.core);
  await deleting.reached;
  const dueAt = world.now + 1;
  await world.core.metadata.transact(SPACE, (tx) =>
    tx.insert('discard', { generation: stray!, dueAt, urlExpiresAt: 0 }),
  );
  delete world.doors.delete;
  deleting.open();
  await sweeping;
  const left = await world.core.metadata.transact(SPACE, (tx) => tx.due('discards', dueAt, 10));
  expect(left).toContainEqual({ generation: stray!, dueAt, urlExpiresAt: 0 });
});

test('the object of a generation nobody leased again goes after its 24 h', async () => {
  const node = objectNode(1);
  const { upload } = await world.begin(node);
  world.direct.put(upload.url, node.bytes);
  world.now = upload.expiresAt + DAY_MS - 1;
  await world.sweepAll();
  expect(world.direct.generations).toHaveLength(1);
  world.now += 1;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
  expect(await generationOf(node)).toBeUndefined();
});

test('an object that arrives after its last record is gone is found by the sweep of the store', async () => {
  const node = objectNode(1);
  const land = world.direct.beginPut((await world.begin(node)).upload.url);
  world.now += 3 * DAY_MS;
  await world.sweepAll();
  expect(await generationOf(node)).toBeUndefined();
  expect(land(node.bytes)).toBe(200);
  await world.sweepAll();
  expect(world.direct.generations).toHaveLength(1);
  world.now += TOMBSTONE_MS;
  await world.sweepAll();
  expect(world.direct.generations).toEqual([]);
});

test('a generation is active until its URL has expired or a lease has judged its object: a PUT frees no slot', async () => {
  const nodes = [objectNode(1), objectNode(2), objectNode(3)];
  const begun = [];
  for (const node of nodes) begun.push(await world.begin(node));
  const another = smallNode(4);
  for (const [index, { upload }] of begun.entries()) world.direct.put(upload.url, nodes[index]!.bytes);
  expect(await failureOf(world.lease(another))).toMatchObject({ code: 'CAS_UPLOAD_LIMIT' });
  expect((await world.lease(nodes[0]!)).state).toBe('ready');
  expect((await world.lease(another)).state).toBe('awaiting_upload');
  expect(await failureOf(world.lease(smallNode(5)))).toMatchObject({ code: 'CAS_UPLOAD_LIMIT' });
  world.now += URL_LIFE_MS;
  expect((await world.lease(smallNode(5))).state).toBe('awaiting_upload');
});

test('concurrent leases that inspect one object publish it once, each with its own duration', async () => {
  const node = objectNode(1);
  world.direct.put((await world.begin(node)).upload.url, node.bytes);
  const durations = [1, 2, 3, 4].map((minutes) => minutes * MINUTE_MS);
  const answers = await Promise.all(durations.map((durationMs) => world.lease(node, durationMs)));
  for (const [index, answer] of answers.entries()) {
    if (answer.state !== 'ready') throw new Error(`expected ready, got ${answer.state}`);
    expect(answer.leaseExpiresAt).toBeGreaterThanOrEqual(world.now + durations[index]!);
  }
  expect((await world.row(node))?.leaseExpiresAt).toBe(world.now + 4 * MINUTE_MS);
  expect(world.direct.generations).toHaveLength(1);
});

test('a lease whose generation is replaced at every look ends in 503, and the next lease succeeds', async () => {
  const node = objectNode(1);
  let url = (await world.begin(node)).upload.url;
  let looks = 0;
  let isInside = false;
  world.doors.inspect = async (step) => {
    const inspected = await step();
    if (isInside) return inspected;
    looks += 1;
    isInside = true;
    world.direct.put(url, objectNode(2).bytes);
    url = (await world.begin(node)).upload.url;
    isInside = false;
    return inspected;
  };
  expect(await failureOf(world.lease(node))).toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 503 });
  expect(looks).toBe(4);
  delete world.doors.inspect;
  expect((await world.upload(node)).state).toBe('ready');
});
