/** A pack from its PUT to its last lease: judged, published, repeated, forgotten (docs/bulk.md; core/packs/README.md). */
import { describe, expect, test } from 'bun:test';
import type { PackInstruction } from '@holdfast/protocol';
import {
  type CanonicalNode,
  makeNode,
  seededBytes,
  sha256Hex,
} from '../../../../test/support/canonical-node.ts';
import {
  makePack,
  PACK_BYTES_LIMIT,
  type PlantedRecord,
  packed,
  plain,
  recordBytes,
} from '../../../../test/support/planted-pack.ts';
import { runGc } from '../collect/run-gc.ts';
import type { PackStore } from '../pack-ports.ts';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import { readMetadata } from '../read/read-metadata.ts';
import {
  CALLER,
  type CoreWorld,
  DAY_MS,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { PACK_RECEIVERS, type PackClient, statesOf, usePackWorld, withPacks } from '../test/pack-fixture.ts';

const NODE_BYTES_MAX = 128 * 1024;

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(isDirect, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  const contentOf = async (node: CanonicalNode): Promise<Uint8Array> => {
    const { body } = await readContent(world.core, SPACE, node.hash, undefined, CALLER);
    return new Response(body as BodyInit).bytes();
  };
  const sendAll = async (pack: PackInstruction, records: readonly PlantedRecord[]): Promise<void> => {
    expect(await client.put(pack, makePack(records))).toBe(200);
  };
  const rejectionsOf = ({ results }: { readonly results: readonly object[] }) =>
    results.map((result) => ('rejection' in result ? (result.rejection as { code: string }).code : 'none'));

  test('each good node is published as leaseNode publishes it, in the order of the pack, in both codecs', async () => {
    const [one, empty] = [smallNode(1), makeNode('')];
    const large = makeNode('x'.repeat(100_000), { refs: [one.hash, one.hash] });
    const top = makeNode('top', { refs: [large.hash, empty.hash, large.hash] });
    const nodes = [top, large, one, empty];
    const answer = await client.send([one], [plain(top), packed(large), plain(one), plain(empty)]);
    const lease = { leaseStartedAt: world.now, leaseExpiresAt: world.now + MINUTE_MS };
    expect(answer).toEqual({
      id: answer.id,
      results: nodes.map(({ hash }) => ({ state: 'ready', hash, ...lease })),
    });
    for (const node of nodes) {
      expect(Buffer.compare(await contentOf(node), node.content)).toBe(0);
      const { size, contentType, refs } = (await readMetadata(world.core, SPACE, node.hash)).metadata;
      expect([size, contentType, [...refs]]).toEqual([node.content.length, node.contentType, [...node.refs]]);
    }
    expect((await world.row(large))?.childRefCount).toBe(2);
    expect((await world.row(one))?.childRefCount).toBe(2);
    const content = nodes.reduce((sum, node) => sum + node.content.length, 0);
    const stored = [top, one, empty].reduce(
      (sum, { bytes }) => sum + bytes.length,
      packed(large).stored.length,
    );
    expect(await getUsage(world.core, SPACE)).toMatchObject({
      nodeCount: 4,
      readyContentBytes: content,
      readyStoredBytes: stored,
      reservedBytes: 0,
      notReadyNodeCount: 0,
      leasedNodeCount: 4,
    });
    expect(await client.use(answer.id)).toMatchObject({ liveRecords: 4, liveBytes: stored });
  });

  test('a parent with missing children waits, reserves its canonical size, and protects the children that exist', async () => {
    const [there, missing] = [smallNode(1), smallNode(2)];
    const parent = makeNode('y'.repeat(5000), { refs: [missing.hash, there.hash, missing.hash] });
    const answer = await client.send([parent, there], [packed(parent), plain(there)]);
    expect(answer.results[0]).toEqual({
      state: 'validated_awaiting_children',
      hash: parent.hash,
      childHashes: [missing.hash],
    });
    expect((await getUsage(world.core, SPACE)).reservedBytes).toBe(parent.bytes.length);
    world.now += DAY_MS - MINUTE_MS;
    expect((await runGc(world.core, SPACE, 10)).deleted).toBe(0);
    await world.upload(missing);
    expect(statesOf(await client.leases([parent, there, missing]))).toEqual(['ready', 'ready', 'ready']);
    expect(await getUsage(world.core, SPACE)).toMatchObject({ reservedBytes: 0, notReadyNodeCount: 0 });
  });

  test('a record that is wrong is rejected alone, by the first rule that it breaks', async () => {
    const good = smallNode(1);
    const tooLarge = makeNode(seededBytes(NODE_BYTES_MAX, 2));
    const exactly = makeNode('z'.repeat(NODE_BYTES_MAX - 24 - 'application/octet-stream'.length));
    const garbage = Buffer.from('these bytes are no canonical node');
    const noNode = { hash: sha256Hex(garbage), codec: 0, stored: garbage, canonicalLength: garbage.length };
    const bad = { ...packed(zstdBig(3)), stored: Buffer.from('no frame at all') };
    const twoFrames = packed(zstdBig(4));
    const records: PlantedRecord[] = [
      { ...plain(tooLarge), hash: 'ab'.repeat(32), codec: 1, canonicalLength: tooLarge.bytes.length },
      { ...bad, hash: 'cd'.repeat(32) },
      { ...twoFrames, stored: Buffer.concat([twoFrames.stored, twoFrames.stored]) },
      { ...plain(smallNode(5)), hash: 'ef'.repeat(32) },
      { ...noNode, hash: '12'.repeat(32) },
      noNode,
      plain(good),
      packed(exactly),
    ];
    const answer = await client.send([good], records);
    expect(rejectionsOf(answer)).toEqual([
      'NODE_TOO_LARGE',
      'INVALID_CANONICAL_NODE',
      'INVALID_CANONICAL_NODE',
      'NODE_DIGEST_MISMATCH',
      'NODE_DIGEST_MISMATCH',
      'INVALID_CANONICAL_NODE',
      'none',
      'none',
    ]);
    expect(answer.results[3]).toEqual({
      state: 'rejected',
      hash: 'ef'.repeat(32),
      rejection: { code: 'NODE_DIGEST_MISMATCH', message: expect.stringMatching(/./) },
    });
    expect(answer.broken).toBeUndefined();
    expect((await getUsage(world.core, SPACE)).nodeCount).toBe(2);
    expect(await client.lease(answer.id)).toEqual({ results: answer.results });
  });

  test('a framing fault ends the pack at its record, and the records before it count', async () => {
    const [one, two] = [smallNode(1), smallNode(2)];
    const first = 8 + recordBytes(plain(one)).length;
    const damage: [string, Uint8Array, number][] = [
      ['a bad header', Buffer.concat([Buffer.from('4846504b02000000', 'hex'), recordBytes(plain(one))]), 0],
      ['an empty body', Buffer.alloc(0), 0],
      ['cut off', makePack([plain(one), plain(two)]).subarray(0, -1), first],
      ['cut off in a header', makePack([plain(one), plain(two)]).subarray(0, first + 43), first],
      ['a repeated hash', makePack([plain(one), plain(one), plain(two)]), first],
      ['codec 2', makePack([plain(one), { ...plain(two), codec: 2 }]), first],
      ['canonical length 0', makePack([plain(one), { ...plain(two), canonicalLength: 0 }]), first],
      [
        'a stored length past the end',
        makePack([
          plain(one),
          { ...plain(two), storedLength: 2 ** 31, canonicalLength: 8_388_608, codec: 1 },
        ]),
        first,
      ],
    ];
    for (const [name, bytes, byte] of damage) {
      const pack = await client.open([two]);
      expect(await client.put(pack, bytes)).toBe(200);
      const answer = await client.lease(pack.id);
      expect([name, answer.broken?.byte]).toEqual([name, byte]);
      expect(answer.broken?.message).toMatch(/./);
      expect(answer.results.map(({ hash }) => hash)).toEqual(byte === 0 ? [] : [one.hash]);
      expect(await client.lease(pack.id)).toEqual(answer);
    }
    expect(await world.row(two)).toBeUndefined();
  });

  test('a pack is valid if it is empty, or holds other nodes than were asked for', async () => {
    const empty = await client.open([smallNode(1)]);
    await sendAll(empty, []);
    expect(await client.lease(empty.id)).toEqual({ results: [] });
    expect(statesOf(await client.send([smallNode(1)], [plain(smallNode(2))]))).toEqual(['ready']);
    expect(await world.row(smallNode(1))).toBeUndefined();
  });

  test('a pack over 64 MiB is only reported as too large, and none of it is read', async () => {
    const pack = await client.open([smallNode(1)]);
    const body = new Uint8Array(PACK_BYTES_LIMIT + 1);
    expect(await client.put(pack, body)).toBe(isDirect ? 200 : 413);
    expect(await client.put(pack, makePack([]))).toBe(412);
    // As with a node, the PUT frees no slot.
    expect((await client.pack(pack.id))?.state).toBe('open');
    const inspect: PackStore['inspect'] = (space, generation, judge) =>
      world.core.content.packs.inspect(space, generation, (object) =>
        judge({ ...object, read: () => unread() }),
      );
    const answer = await client.lease(pack.id, MINUTE_MS, withPacks(world.core, { inspect }));
    expect(answer).toEqual({
      results: [],
      broken: { byte: PACK_BYTES_LIMIT, message: expect.stringMatching(/./) },
    });
    expect(await client.lease(pack.id)).toEqual(answer);
    expect((await client.pack(pack.id))?.state).toBe('judged');
  });

  test('a pack without an upload, or whose bytes are lost, is 409; an unknown, foreign, malformed or forgotten one 404', async () => {
    const pack = await client.open([smallNode(1)]);
    const early = await failureOf(client.lease(pack.id));
    expect([early.code, early.status]).toEqual(['CONFLICT', 409]);
    await sendAll(pack, [plain(smallNode(1))]);
    const without = withPacks(world.core, { inspect: () => Promise.resolve(undefined) });
    const lost = await failureOf(client.lease(pack.id, MINUTE_MS, without));
    expect([lost.code, lost.status]).toEqual(['CONFLICT', 409]);
    expect((await client.leases([smallNode(1)], { pack: true })).pack?.id).not.toBe(pack.id);
    const foreign = { ...SPACE, spaceId: 'other' };
    const refusals = [
      await failureOf(client.lease('0'.repeat(32))),
      await failureOf(client.lease('..')),
      await failureOf(client.lease(`${pack.id}0`)),
      await failureOf(client.lease(pack.id, MINUTE_MS, world.core, foreign)),
    ];
    expect(statesOf(await client.lease(pack.id))).toEqual(['ready']);
    world.now += DAY_MS;
    refusals.push(await failureOf(client.lease(pack.id)));
    await world.sweepAll();
    refusals.push(await failureOf(client.lease(pack.id)));
    for (const { code, status, message } of refusals) {
      expect({ code, status, message }).toEqual({
        code: 'NOT_FOUND',
        status: 404,
        message: refusals[0]!.message,
      });
    }
  });

  test('a repeated lease reads no bytes: rejections stay, every other hash has its state of now', async () => {
    const [kept, gone] = [smallNode(1), smallNode(2)];
    const waiting = smallNode(3, [smallNode(9).hash]);
    const records = [
      plain(waiting),
      { ...plain(smallNode(4)), hash: 'ab'.repeat(32) },
      plain(gone),
      plain(kept),
    ];
    const pack = await client.open([kept]);
    expect(await client.put(pack, Buffer.concat([makePack(records), Buffer.from([1])]))).toBe(200);
    const first = await client.lease(pack.id);
    const core = withPacks(world.core, { inspect: unread, readRecord: unread, readRecords: unread });
    expect(await client.lease(pack.id, MINUTE_MS, core)).toEqual(first);
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(kept.hash))!;
      await tx.update('node', row, { ...row, leaseExpiresAt: world.now + 10 * DAY_MS });
    });
    // Each lease call keeps the verdicts for another day.
    for (let day = 0; day < 2; day += 1) {
      world.now += DAY_MS - 1;
      await runGc(world.core, SPACE, 100);
      await world.sweepAll();
      const { results, broken } = await client.lease(pack.id, MINUTE_MS, core);
      expect(broken).toEqual(first.broken!);
      expect(results[1]).toEqual(first.results[1]!);
      expect([results[2], results[3]?.state]).toEqual([{ state: 'absent', hash: gone.hash }, 'ready']);
      expect(results[0]?.state).toBe('validated_awaiting_children');
    }
  });

  test('verdicts outlive the object of a pack that has no live record left', async () => {
    const node = smallNode(1);
    const { id } = await client.send([node]);
    const { generation } = (await client.pack(id))!;
    world.now += 2 * MINUTE_MS;
    expect(await runGc(world.core, SPACE, 10)).toMatchObject({
      deleted: 1,
      reclaimedContentBytes: node.content.length,
    });
    await world.sweepAll();
    world.now += isDirect ? 10 * MINUTE_MS : 0;
    await world.sweepAll();
    const objects = world.objects();
    expect(objects).not.toContain(generation);
    expect((await client.lease(id)).results).toEqual([{ state: 'absent', hash: node.hash }]);
    // Another pack brings the same bytes, and the first pack stays spent.
    expect(statesOf(await client.send([node]))).toEqual(['ready']);
    expect(statesOf(await client.lease(id))).toEqual(['ready']);
    expect((await client.use(id)).liveRecords).toBe(0);
  });

  test('a ready node is only leased, a rotten one healed, a claimed one revived', async () => {
    const [ready, rotten, claimed] = [smallNode(1), smallNode(2), objectNode(3)];
    const parent = smallNode(4, [rotten.hash, rotten.hash]);
    await world.upload(claimed);
    world.now += 2 * MINUTE_MS;
    world.doors.delete = () => Promise.reject(new Error('planted'));
    await expect(runGc(world.core, SPACE, 10)).rejects.toThrow();
    delete world.doors.delete;
    await client.send([ready, rotten, parent]);
    const before = await client.content(ready);
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(rotten.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten' });
    });
    const { id, results } = await client.send([rotten], [plain(ready), plain(rotten), plain(claimed)]);
    expect(statesOf({ results })).toEqual(['ready', 'ready', 'ready']);
    expect(await client.content(ready)).toEqual(before);
    expect(await client.use(id)).toMatchObject({ liveRecords: 2 });
    expect(await world.row(rotten)).toMatchObject({ state: 'ready', childRefCount: 2, storage: 'packed' });
    for (const node of [ready, rotten, claimed]) {
      expect(Buffer.compare(await contentOf(node), node.content)).toBe(0);
    }
    expect(await getUsage(world.core, SPACE)).toMatchObject({ nodeCount: 4, notReadyNodeCount: 0 });
  });

  test('a record that contradicts what is stored for its hash is a conflict, and stays one', async () => {
    const [node, other] = [smallNode(1), smallNode(2)];
    await world.upload(node);
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(node.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten', contentType: 'x/y' });
    });
    const before = await world.row(node);
    const answer = await client.send([node], [plain(other), plain(node)]);
    expect(rejectionsOf(answer)).toEqual(['none', 'NODE_CONFLICT']);
    expect(await world.row(node)).toEqual(before);
    expect(rejectionsOf(await client.lease(answer.id))).toEqual(['none', 'NODE_CONFLICT']);
  });

  test('publishing finishes a v1 upload of the same hash; a rejected record leaves it and its rejection', async () => {
    const [one, two] = [smallNode(1), objectNode(2)];
    const open = await world.begin(one);
    const wrong = await world.begin(two);
    if (isDirect) world.direct.put(wrong.upload.url, one.bytes);
    else await world.put(wrong, one.bytes);
    expect(await world.lease(two)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
    const kept = await world.core.metadata.findUpload(SPACE, two.hash);
    await client.send([one], [plain(one), { ...plain(smallNode(5)), hash: two.hash }]);
    expect(await world.core.metadata.findUpload(SPACE, one.hash)).toBeUndefined();
    expect(await world.core.metadata.findUpload(SPACE, two.hash)).toEqual(kept);
    expect(await world.lease(two)).toMatchObject({ rejection: { code: 'NODE_DIGEST_MISMATCH' } });
    // On S3 such a PUT may be answered 200; what it left is never read, and swept when its URL has run out.
    if (isDirect) world.direct.put(open.upload.url, one.bytes);
    else expect((await failureOf(world.put(open, one.bytes))).status).toBe(412);
    expect((await client.content(one))?.packed).toBeDefined();
  });

  test('a quota judges all new records together; if it refuses, nothing is published and the pack goes at once', async () => {
    const [old, one, two] = [smallNode(1), smallNode(2), smallNode(3)];
    await client.send([old]);
    const sent = async () => {
      const pack = await client.open([one, two]);
      await sendAll(pack, [old, one, two].map(plain));
      return pack;
    };
    const objects = world.objects().length;
    const bytes = [old, one, two].reduce((sum, node) => sum + node.bytes.length, 0);
    const unlimited = { maxBytes: undefined, maxNodes: undefined };
    for (const limits of [
      { ...unlimited, maxNodes: 2 },
      { ...unlimited, maxBytes: bytes - 1 },
    ]) {
      world.quotas.space = undefined;
      const pack = await sent();
      world.quotas.space = limits;
      const error = await failureOf(client.lease(pack.id));
      expect(error).toMatchObject({ code: 'RESOURCE_EXHAUSTED', status: 429, retryAfterSeconds: undefined });
      expect((await getUsage(world.core, SPACE)).nodeCount).toBe(1);
      expect((await failureOf(client.lease(pack.id))).status).toBe(404);
      expect(world.objects()).toHaveLength(objects);
      expect((await world.core.metadata.readHoldings(SPACE)).pendingBytes).toBe(0);
    }
    world.quotas.space = undefined;
    const packs = [await sent(), await sent()];
    world.quotas.space = { maxBytes: bytes, maxNodes: 3 };
    world.quotas.app = { limits: { ...unlimited, maxNodes: 1 }, stored: { bytes: 0, nodes: 0 } };
    await failureOf(client.lease(packs[0]?.id ?? ''));
    world.quotas.app = { limits: { ...unlimited, maxNodes: 2 }, stored: { bytes: 0, nodes: 0 } };
    expect(statesOf(await client.lease(packs[1]?.id ?? ''))).toEqual(['ready', 'ready', 'ready']);
    expect([world.quotas.reserved, world.quotas.app.stored.nodes]).toEqual([0, 2]);
  });

  test('an abandoned pack and its object go 24 h after its URL ended and its last lease call', async () => {
    const [sent, silent] = [await client.open([smallNode(1)]), await client.open([smallNode(2)])];
    await sendAll(sent, [plain(smallNode(1))]);
    world.now = sent.expiresAt + DAY_MS - 1;
    await world.sweepAll();
    expect([await client.pack(sent.id), await client.pack(silent.id)]).not.toContain(undefined);
    world.now += 1;
    await world.sweepAll();
    expect([await client.pack(sent.id), await client.pack(silent.id)]).toEqual([undefined, undefined]);
    expect((await failureOf(client.lease(sent.id))).status).toBe(404);
    expect(world.objects()).toEqual([]);
  });
});

function zstdBig(seed: number): CanonicalNode {
  return makeNode(`${seed} `.repeat(500));
}

function unread(): never {
  throw new Error('these bytes must not be read');
}
