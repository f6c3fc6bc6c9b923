/** The lease and upload machine, step by step and with requests between each other's steps (docs/api.md, leaseNode). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { runGc } from '../collect/run-gc.ts';
import { readMetadata } from '../read/read-metadata.ts';
import {
  CoreWorld,
  failureOf,
  Gate,
  MINUTE_MS,
  ORIGIN,
  objectNode,
  SlowBody,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { leaseNode } from './lease-node.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open({ activeUploadsMax: 3 });
});
afterEach(() => world.close());

const generationOf = async (node: { hash: string }): Promise<string | undefined> =>
  (await world.core.metadata.findUpload(SPACE, node.hash))?.generation;

test('the first lease opens a generation, later ones return it with a URL signed anew', async () => {
  const node = smallNode(1);
  const first = await world.begin(node);
  const generation = await generationOf(node);
  expect(first).toEqual({
    state: 'awaiting_upload',
    hash: node.hash,
    upload: {
      method: 'PUT',
      url: expect.stringContaining(`${ORIGIN}/uploads/`),
      expiresAt: world.now + 5 * MINUTE_MS,
      headers: { 'content-type': 'application/vnd.holdfast.cas-node.v1', 'if-none-match': '*' },
    },
  });
  world.now += MINUTE_MS;
  const second = await world.begin(node);
  expect(second.upload.expiresAt).toBe(world.now + 5 * MINUTE_MS);
  expect(await generationOf(node)).toBe(generation);
  expect((await failureOf((async () => readMetadata(world.core, SPACE, node.hash))())).code).toBe(
    'NOT_FOUND',
  );
  await world.put(first, node.bytes);
  expect((await world.lease(node)).state).toBe('ready');
});

test('a renewal keeps the start of a running lease and never shortens it; at the very end a new lease starts', async () => {
  const node = smallNode(1);
  await world.publish(node);
  const startedAt = world.now;
  world.now += 1;
  expect(await world.lease(node, 10 * MINUTE_MS)).toEqual({
    state: 'ready',
    hash: node.hash,
    leaseStartedAt: startedAt,
    leaseExpiresAt: startedAt + 1 + 10 * MINUTE_MS,
  });
  const shorter = await world.lease(node, 1);
  expect(shorter).toMatchObject({ leaseExpiresAt: startedAt + 1 + 10 * MINUTE_MS });
  world.now = startedAt + 1 + 10 * MINUTE_MS;
  expect(await world.lease(node)).toMatchObject({
    leaseStartedAt: world.now,
    leaseExpiresAt: world.now + MINUTE_MS,
  });
});

test('a store that renews ready rows by itself is asked first, and alone if the row is ready', async () => {
  const node = smallNode(1);
  const { metadata } = world.core;
  const asked: unknown[] = [];
  let transactions = 0;
  const renewing = Object.assign(Object.create(metadata) as typeof metadata, {
    findUpload: metadata.findUpload.bind(metadata),
    transact: (...given: Parameters<typeof metadata.transact>) => {
      transactions += 1;
      return metadata.transact(...given);
    },
    renewReadyLease: async (...given: unknown[]) => {
      asked.push(given);
      const row = await metadata.findNode(SPACE, node.hash);
      return row?.state === 'ready' ? { leaseStartedAt: 7, leaseExpiresAt: 8 } : undefined;
    },
  });
  const lease = (durationMs: number) =>
    leaseNode({ ...world.core, metadata: renewing }, SPACE, node.hash, durationMs, () => ORIGIN);
  const begun = await lease(1);
  if (!('upload' in begun)) throw new Error('expected an upload instruction');
  await world.put(begun, node.bytes);
  expect(await lease(2 * MINUTE_MS)).toMatchObject({ leaseExpiresAt: world.now + 2 * MINUTE_MS });
  transactions = 0;
  expect(await lease(3 * MINUTE_MS)).toEqual({
    state: 'ready',
    hash: node.hash,
    leaseStartedAt: 7,
    leaseExpiresAt: 8,
  });
  expect(transactions).toBe(0);
  expect(asked).toEqual([1, 2, 3].map((minutes) => [SPACE, node.hash, minutes * MINUTE_MS]));
});

test('a lease on a ready node does no content I/O', async () => {
  const node = objectNode(1);
  await world.publish(node);
  const refuse = (): never => {
    throw new Error('planted: no content I/O is expected');
  };
  Object.assign(world.doors, { inspect: refuse, open: refuse, verify: refuse, delete: refuse });
  await world.spoil(node, 'lost');
  expect((await world.lease(node)).state).toBe('ready');
  await world.mend(node);
});

test('an expired generation without an object is replaced, and the rejection before it is kept', async () => {
  const node = smallNode(1);
  await world.put(await world.begin(node), smallNode(2).bytes);
  const rejected = await world.begin(node);
  expect(rejected).toMatchObject({
    state: 'awaiting_replacement_upload',
    rejection: { code: 'NODE_DIGEST_MISMATCH' },
  });
  const generation = await generationOf(node);
  world.now = rejected.upload.expiresAt - 1;
  expect((await world.begin(node)).state).toBe('awaiting_replacement_upload');
  expect(await generationOf(node)).toBe(generation);
  world.now += 5 * MINUTE_MS;
  const anew = await world.begin(node);
  expect(anew).toMatchObject({
    state: 'awaiting_replacement_upload',
    rejection: { code: 'NODE_DIGEST_MISMATCH' },
  });
  expect(await generationOf(node)).not.toBe(generation);
  expect((await failureOf(world.put(rejected, node.bytes))).status).toBe(403);
  await world.put(anew, node.bytes);
  expect((await world.lease(node)).state).toBe('ready');
});

test('bytes are judged by length, then digest, then format', async () => {
  const longest = 128 * 1024;
  const notCanonical = { ...smallNode(1), bytes: new Uint8Array(longest), hash: '' };
  notCanonical.hash = new Bun.CryptoHasher('sha256').update(notCanonical.bytes).digest('hex');
  const upload = await world.begin(notCanonical);
  await world.put(upload, notCanonical.bytes);
  expect(await world.lease(notCanonical)).toMatchObject({ rejection: { code: 'INVALID_CANONICAL_NODE' } });
  await world.put(await world.begin(notCanonical), notCanonical.bytes.slice(1));
  expect(await world.lease(notCanonical)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
  const tooLong = new Uint8Array(longest + 1);
  expect((await failureOf(world.put(await world.begin(notCanonical), tooLong))).status).toBe(413);
  expect(await world.lease(notCanonical)).toMatchObject({ rejection: { code: 'NODE_TOO_LARGE' } });
});

test('unready children are listed once each, in first-occurrence order; only its own lease makes a parent ready', async () => {
  const [a, b, c] = [smallNode(1), smallNode(2), smallNode(3)];
  await world.publish(c);
  const parent = smallNode(4, [b.hash, c.hash, a.hash, b.hash]);
  expect(await world.upload(parent)).toEqual({
    state: 'validated_awaiting_children',
    hash: parent.hash,
    childHashes: [b.hash, a.hash],
  });
  expect([await world.looseEdges(b), await world.looseEdges(a)]).toEqual([2, 1]);
  await world.publish(b);
  expect((await world.row(b))?.childRefCount).toBe(2);
  expect(await world.lease(parent)).toMatchObject({ childHashes: [a.hash] });
  await world.publish(a);
  expect((await world.row(parent))?.state).toBe('waiting');
  expect(await world.lease(parent)).toMatchObject({ state: 'ready', leaseStartedAt: world.now });
  expect((await world.row(parent))?.waitingTouchedAt).toBe(0);
});

test('nested waiting parents each protect their children and become ready from the bottom up', async () => {
  const leaf = objectNode(1);
  const middle = smallNode(2, [leaf.hash, leaf.hash]);
  const top = smallNode(3, [middle.hash, leaf.hash]);
  expect(await world.upload(top)).toMatchObject({ childHashes: [middle.hash, leaf.hash] });
  expect(await world.upload(middle)).toMatchObject({ childHashes: [leaf.hash] });
  expect((await world.row(middle))?.childRefCount).toBe(1);
  await world.publish(leaf);
  expect((await world.row(leaf))?.childRefCount).toBe(3);
  expect(await world.lease(top)).toMatchObject({ childHashes: [middle.hash] });
  world.now += MINUTE_MS;
  expect((await runGc(world.core, SPACE, 100)).examined).toBe(0);
  expect((await world.lease(middle)).state).toBe('ready');
  expect((await world.lease(top)).state).toBe('ready');
});

test('concurrent leases of one hash publish once and answer each with its own duration', async () => {
  const child = smallNode(1);
  await world.publish(child);
  const node = objectNode(2, [child.hash]);
  await world.put(await world.begin(node), node.bytes);
  const durations = [1, 2, 3, 4].map((minutes) => minutes * MINUTE_MS);
  const answers = await Promise.all(durations.map((duration) => world.lease(node, duration)));
  for (const [index, answer] of answers.entries()) {
    expect(answer).toMatchObject({ state: 'ready', leaseStartedAt: world.now });
    if (answer.state !== 'ready') throw new Error('unreachable');
    expect(answer.leaseExpiresAt).toBeGreaterThanOrEqual(world.now + durations[index]!);
  }
  expect((await world.row(child))?.childRefCount).toBe(1);
  expect((await world.row(node))?.leaseExpiresAt).toBe(world.now + 4 * MINUTE_MS);
});

test('the limit of uploads refuses a new generation and nothing else', async () => {
  const [a, b, c, d] = [smallNode(1), smallNode(2), smallNode(3), smallNode(4)];
  const uploads = [await world.begin(a), await world.begin(b), await world.begin(c)];
  const refused = await failureOf(world.lease(d));
  expect(refused).toMatchObject({ code: 'CAS_UPLOAD_LIMIT', status: 429 });
  expect(refused.retryAfterSeconds).toBeGreaterThan(0);
  expect(await generationOf(d)).toBeUndefined();
  expect((await world.lease(a)).state).toBe('awaiting_upload');
  // The PUT alone frees no slot; a lease that judges its object does, and its own replacement may take that slot.
  await world.put(uploads[0]!, a.bytes);
  expect((await failureOf(world.lease(d))).code).toBe('CAS_UPLOAD_LIMIT');
  await world.put(uploads[1]!, a.bytes);
  expect((await world.lease(b)).state).toBe('awaiting_replacement_upload');
  expect((await failureOf(world.lease(d))).code).toBe('CAS_UPLOAD_LIMIT');
  expect((await world.lease(a)).state).toBe('ready');
  expect((await world.lease(d)).state).toBe('awaiting_upload');
});

test('a slot is free when the last signed URL has expired, and a rejection refused by the limit is not lost', async () => {
  const [a, b, c, d, e] = [1, 2, 3, 4, 5].map((seed) => smallNode(seed)) as [
    never,
    never,
    never,
    never,
    never,
  ];
  const wrong = await world.begin(a);
  await world.begin(b);
  await world.begin(c);
  await world.put(wrong, smallNode(9).bytes);
  world.now = wrong.upload.expiresAt - 1;
  expect((await failureOf(world.lease(d))).code).toBe('CAS_UPLOAD_LIMIT');
  world.now += 1;
  for (const node of [b, d, e]) await world.begin(node);
  const before = await world.core.metadata.findUpload(SPACE, (a as { hash: string }).hash);
  expect((await failureOf(world.lease(a))).code).toBe('CAS_UPLOAD_LIMIT');
  expect(await world.core.metadata.findUpload(SPACE, (a as { hash: string }).hash)).toEqual(before);
  world.now += 5 * MINUTE_MS;
  expect(await world.lease(a)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
});

test('a generation that is being received is not replaced when its URL expires', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  world.now = upload.upload.expiresAt - 1;
  const body = new SlowBody(node.bytes);
  const put = world.put(upload, body, node.bytes.length);
  world.now += 10 * MINUTE_MS;
  const generation = await generationOf(node);
  expect((await world.lease(node)).state).toBe('awaiting_upload');
  expect(await generationOf(node)).toBe(generation);
  body.finish();
  await put;
  expect((await world.lease(node)).state).toBe('ready');
});

test('a lease that finds the object of a running PUT leaves it to that PUT', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  const looked = new Gate();
  const sealed = new Gate();
  world.doors.inspect = async (step) => {
    await looked.pass();
    return step();
  };
  world.doors.seal = async (step) => {
    const result = await step();
    await sealed.pass();
    return result;
  };
  const lease = world.lease(node);
  await looked.reached;
  const put = world.put(upload, node.bytes, node.bytes.length);
  await sealed.reached;
  looked.open();
  expect((await lease).state).toBe('awaiting_upload');
  sealed.open();
  await put;
  expect((await world.lease(node)).state).toBe('ready');
});

test('a complete object at the current key is accepted though nobody was told that it is finished', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  world.doors.seal = async (step) => {
    await step();
    throw new Error('planted: the store went away after the object was sealed');
  };
  await expect(world.put(upload, node.bytes)).rejects.toThrow('planted');
  world.now = upload.upload.expiresAt + 1;
  expect((await world.lease(node)).state).toBe('ready');
  expect((await world.row(node))?.storage).toBe('object');
});

test('an inspection decides nothing if its generation was replaced meanwhile', async () => {
  const node = objectNode(1);
  const upload = await world.begin(node);
  world.now = upload.upload.expiresAt;
  const gate = new Gate();
  let looks = 0;
  world.doors.inspect = async (step) => {
    looks += 1;
    if (looks > 1) return step();
    const found = await step();
    await gate.pass();
    return found;
  };
  const slow = world.lease(node);
  await gate.reached;
  const fast = await world.begin(node);
  const generation = await generationOf(node);
  await world.put(fast, node.bytes);
  gate.open();
  expect((await slow).state).toBe('ready');
  expect((await world.row(node))?.generation).toBe(generation!);
});

test('a rotten node keeps its lease untouched until its bytes heal it; refs, counts and root refs stay', async () => {
  const child = smallNode(1);
  const node = objectNode(2, [child.hash]);
  const parent = smallNode(3, [node.hash]);
  await world.publish(child, node, parent);
  await world.spoil(node, 'flipped');
  await world.core.metadata.transact(SPACE, async (tx) => {
    for (const each of [node, child]) {
      const row = (await tx.findNode(each.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten' });
    }
  });
  const before = (await world.row(node))!;
  world.now += 1;
  const upload = await world.begin(node);
  expect(await world.row(node)).toEqual(before);
  await world.put(upload, node.bytes);
  // Its child is rotten, and the node heals all the same, because its edges still stand.
  expect(await world.lease(node, 2 * MINUTE_MS)).toMatchObject({
    state: 'ready',
    leaseStartedAt: before.leaseStartedAt,
    leaseExpiresAt: world.now + 2 * MINUTE_MS,
  });
  const { generation, leaseExpiresAt, ...kept } = (await world.row(node))!;
  expect(generation).not.toBe(before.generation);
  const { generation: oldGeneration, leaseExpiresAt: _, ...was } = before;
  expect(kept).toEqual({ ...was, state: 'ready' });
  expect((await world.row(child))?.childRefCount).toBe(1);
  await world.sweepAll();
  expect(world.objectFiles()).not.toContain(oldGeneration);
});

test.each(['size', 'contentType', 'refs'] as const)(
  'good bytes that contradict the stored %s of their hash are a conflict, every time',
  async (field) => {
    const node = objectNode(2, [smallNode(1).hash]);
    await world.publish(smallNode(1), node);
    const others = { size: 1, contentType: 'x/y', refs: Buffer.alloc(32, 7) } as const;
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(node.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten', [field]: others[field] });
    });
    const before = await world.row(node);
    await world.put(await world.begin(node), node.bytes);
    for (let times = 0; times < 2; times += 1) {
      expect(await world.lease(node)).toMatchObject({
        state: 'awaiting_replacement_upload',
        rejection: { code: 'NODE_CONFLICT', message: expect.stringContaining('contradicts') },
      });
    }
    expect(await world.row(node)).toEqual(before);
  },
);
