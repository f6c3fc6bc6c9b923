/** reads: what is in the answer, in which form, and what is left out (docs/bulk.md, Read many nodes). */

import { afterEach, beforeEach, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { type CanonicalNode, makeNode, seededBytes } from '../../../../test/support/canonical-node.ts';
import { makePack, packed, plain } from '../../../../test/support/planted-pack.ts';
import { runGc } from '../collect/run-gc.ts';
import { scrub } from '../collect/scrub.ts';
import {
  CALLER,
  CoreWorld,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { manyNodes, PackClient, statesOf, withPacks } from '../test/pack-fixture.ts';
import { readContent } from './read-content.ts';
import { readNodes } from './read-nodes.ts';

let world: CoreWorld;
let client: PackClient;
beforeEach(async () => {
  world = await CoreWorld.open({ nodeBytesMax: 9 * MIB_BYTES });
  client = new PackClient(world, false);
});
afterEach(() => world.close());

const textNode = (seed: number, bytes = 5000): CanonicalNode => makeNode(`${seed} `.padEnd(bytes, 'text '));
const hashesOf = (records: readonly { readonly hash: string }[]): string[] => records.map(({ hash }) => hash);

async function scrubAll(): Promise<void> {
  let position: Parameters<typeof scrub>[1];
  do position = (await scrub(world.core, position)).next;
  while (position !== undefined);
}

test('nodes that can be served come in the order of the request, each in the form it was asked for', async () => {
  const [small, object, zstd, raw] = [smallNode(1), objectNode(2), textNode(3), smallNode(4)];
  await world.publish(small, object);
  await client.send([zstd], [packed(zstd), plain(raw)]);
  const nodes = [raw, zstd, object, small];
  for (const acceptsZstd of [false, true]) {
    const records = await client.read(nodes, acceptsZstd);
    expect(hashesOf(records)).toEqual(hashesOf(nodes));
    expect(records.map(({ codec }) => codec)).toEqual([0, acceptsZstd ? 1 : 0, 0, 0]);
    for (const [index, { codec, stored, canonicalLength }] of records.entries()) {
      const { bytes } = nodes[index]!;
      expect(canonicalLength).toBe(bytes.length);
      expect(Buffer.compare(codec === 1 ? Bun.zstdDecompressSync(stored) : stored, bytes)).toBe(0);
    }
  }
});

test('records in the order of their pack go out in the memory they were read into, and in any order as they are', async () => {
  const nodes = [1, 2, 3, 4, 5].map((seed) => smallNode(seed));
  await client.send(nodes);
  const [first, second, third, ...others] = nodes as [CanonicalNode, CanonicalNode, CanonicalNode];
  const orders = [nodes, [first, third, second, ...others], [first, second, ...others], [...nodes, first]];
  const pieceCounts: number[] = [];
  for (const order of orders) {
    const batches = await Array.fromAsync(readNodes(world.core, SPACE, hashesOf(order), true));
    pieceCounts.push(batches.flat().length);
    const records = await client.read(order);
    expect(hashesOf(records)).toEqual(hashesOf(order));
    expect(records.map(({ stored }) => Buffer.from(stored))).toEqual(
      order.map(({ bytes }) => Buffer.from(bytes)),
    );
  }
  // The pack's header, and for each run that of its first record and the rest.
  expect(pieceCounts).toEqual([3, 9, 5, 5]);
});

test('absent, waiting, claimed, rotten and too large nodes are left out, and an empty answer is a pack too', async () => {
  const [good, rotten, claimed, absent] = [smallNode(1), smallNode(2), objectNode(3), smallNode(4)];
  const waiting = smallNode(5, [absent.hash]);
  const large = makeNode(seededBytes(8 * MIB_BYTES, 6));
  const largest = makeNode(seededBytes(8 * MIB_BYTES - 24 - 'application/octet-stream'.length, 7));
  await world.publish(claimed);
  world.now += 2 * MINUTE_MS;
  world.doors.delete = () => Promise.reject(new Error('planted'));
  await expect(runGc(world.core, SPACE, 10)).rejects.toThrow();
  delete world.doors.delete;
  await world.publish(large, largest);
  await client.send([good, rotten, waiting]);
  await client.spoil(rotten, 'flipped');
  await scrubAll();
  expect((await world.row(rotten))?.state).toBe('rotten');
  const nodes = [largest, rotten, waiting, claimed, absent, large, good];
  expect(hashesOf(await client.read(nodes))).toEqual([largest.hash, good.hash]);
  expect(await client.read([absent, rotten])).toEqual([]);
  await client.mend(rotten);
});

test('an answer ends before 64 MiB of canonical bytes, even if a smaller node follows', async () => {
  const nodes = Array.from({ length: 9 }, (_, index) => textNode(index, 7.9 * MIB_BYTES));
  const last = smallNode(1);
  await client.send(nodes, [...nodes, last].map(packed));
  for (const acceptsZstd of [true, false]) {
    expect(hashesOf(await client.read([...nodes, last], acceptsZstd))).toEqual(hashesOf(nodes.slice(0, 8)));
  }
  expect(hashesOf(await client.read([last, ...nodes.slice(0, 8)], true))).toHaveLength(9);
});

test('an answer ends before 65,536 refs, so that it is a pack that a client may read', async () => {
  const leaf = smallNode(0);
  const parents = Array.from({ length: 258 }, (_, index) => smallNode(index + 1, Array(256).fill(leaf.hash)));
  await client.send([leaf], [plain(leaf)]);
  await client.send(parents.slice(0, 200));
  await client.send(parents.slice(200));
  expect(hashesOf(await client.read([...parents, leaf]))).toEqual(hashesOf(parents.slice(0, 256)));
  expect(hashesOf(await client.read([leaf, ...parents.slice(2)]))).toEqual(
    hashesOf([leaf, ...parents.slice(2)]),
  );
});

test('thousands of nodes from packs and from rows', async () => {
  const [one, two] = [manyNodes(700, 1), manyNodes(700, 2)];
  await client.send(one);
  await client.send(two);
  await world.publish(...manyNodes(3, 3));
  const mixed = one.flatMap((node, index) => [two[index]!, node]);
  mixed.splice(600, 0, ...manyNodes(3, 3));
  expect(hashesOf(await client.read(mixed))).toEqual(hashesOf(mixed));
});

test('a damaged record is left out and its node alone becomes rotten, and is named', async () => {
  const nodes = manyNodes(40);
  const bad = nodes[17]!;
  await client.send(nodes);
  await client.spoil(bad, 'flipped');
  const others = nodes.filter((node) => node !== bad);
  expect(hashesOf(await client.read(nodes))).toEqual(hashesOf(others));
  expect(await world.row(bad)).toMatchObject({ state: 'rotten' });
  expect(world.rotReports).toMatchObject([{ kind: 'rotten', space: SPACE, hash: bad.hash }]);
  await scrubAll();
  for (const node of others) expect((await world.row(node))?.state).toBe('ready');
  // Its record counts as live until it is healed.
  const { pack } = await client.place(bad);
  const { id } = await client.send([bad]);
  expect(await world.row(bad)).toMatchObject({ state: 'ready' });
  expect((await client.place(bad)).pack).not.toBe(pack);
  expect(await client.use(id)).toMatchObject({ liveRecords: 1 });
  expect(hashesOf(await client.read(nodes))).toEqual(hashesOf(nodes));
});

test('damage in the header or in bytes that no row names changes no node', async () => {
  const nodes = manyNodes(3);
  const pack = await client.open(nodes);
  await client.put(pack, Buffer.concat([makePack(nodes.map(plain)), Buffer.alloc(30, 1)]));
  expect((await client.lease(pack.id)).broken).toBeDefined();
  const { generation } = (await client.pack(pack.id))!;
  world.spoiler.spoil({ generation, isInline: false }, 'flipped', 1);
  world.spoiler.spoil({ generation, isInline: false }, 'flipped', -1);
  expect(hashesOf(await client.read(nodes))).toEqual(hashesOf(nodes));
  await scrubAll();
  expect(world.rotReports).toEqual([]);
});

test('a lost object makes each of its nodes rotten, and each is healed, by v1 and by Bulk', async () => {
  const nodes = manyNodes(4);
  const { id } = await client.send(nodes);
  await client.spoil(nodes[0]!, 'lost');
  expect((await failureOf(readContent(world.core, SPACE, nodes[0]!.hash, undefined, CALLER))).status).toBe(
    503,
  );
  expect(await client.read(nodes)).toEqual([]);
  expect(world.rotReports.map(({ hash }) => hash).sort()).toEqual(hashesOf(nodes).sort());
  expect(statesOf(await client.leases(nodes))).toEqual(nodes.map(() => 'absent'));
  await world.publish(nodes[0]!, nodes[1]!);
  expect(await client.use(id)).toMatchObject({ liveRecords: 2 });
  expect(statesOf(await client.send(nodes))).toEqual(nodes.map(() => 'ready'));
  expect(await client.use(id)).toMatchObject({ liveRecords: 0, liveBytes: 0 });
  expect(hashesOf(await client.read(nodes))).toEqual(hashesOf(nodes));
});

test('any other failure of the store is an error before the first byte, and changes nothing', async () => {
  const node = smallNode(1);
  await client.send([node]);
  const fail = () => Promise.reject(Object.assign(new Error('planted'), { code: 'EIO' }));
  const core = withPacks(world.core, { readRecord: fail, readRecords: fail });
  await expect(readNodes(core, SPACE, [node.hash], true).next()).rejects.toThrow('planted');
  expect((await world.row(node))?.state).toBe('ready');
});

test('room is asked for before a large record is read, and not for small ones', async () => {
  const [small, large] = [smallNode(1), makeNode(seededBytes(2 * MIB_BYTES, 2))];
  await client.send([small, large]);
  const steps: unknown[] = [];
  const { packs } = world.core.content;
  const core = withPacks(world.core, {
    readRecords: (space, records) => {
      steps.push(...records.map(({ place }) => place.storedLength));
      return packs.readRecords(space, records);
    },
  });
  const hashes = [small.hash, large.hash];
  for await (const _ of readNodes(core, SPACE, hashes, true, (bytes) => void steps.push({ room: bytes })));
  expect(steps).toEqual([small.bytes.length, { room: large.bytes.length }, large.bytes.length]);
});
