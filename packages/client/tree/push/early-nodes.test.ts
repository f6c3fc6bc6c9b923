/** Nodes that are sent while a tree is read, against one Space in memory: what arrives, and what is left to the push. */
import { describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { encodeNode, type Hash, ROTTEN_NODES_HEADER } from '@holdfast/protocol';
import { hashCanonicalBytes } from '../../digest.ts';
import { ZSTD } from '../../test/fake-bulk-fixture.ts';
import { FakeSpace, failure, json } from '../../test/fake-space-fixture.ts';
import { EarlyNodes } from './early-nodes.ts';

interface Made {
  readonly hash: Hash;
  readonly canonical: Uint8Array;
}

async function makeNodes(
  count: number,
  bytes = 40,
  refsOf: (at: number) => Hash[] = () => [],
): Promise<Made[]> {
  const made: Made[] = [];
  for (let at = 0; at < count; at += 1) {
    const content = new Uint8Array(bytes);
    for (let word = 0; word + 4 <= bytes; word += 4)
      new DataView(content.buffer).setUint32(word, (at + 1) * (word + 7919) * 2_654_435_761);
    const canonical = encodeNode({ contentType: 'application/x-early', refs: refsOf(at), content });
    made.push({ hash: await hashCanonicalBytes(canonical), canonical });
  }
  return made;
}

function bulkSpace(): FakeSpace {
  const space = new FakeSpace();
  space.offersBulk = true;
  return space;
}

function startEarly(
  space: FakeSpace,
  beforeSending: () => Promise<void> = async () => undefined,
): EarlyNodes {
  const client = space.client({ retry: { attemptsMax: 1 }, zstd: ZSTD });
  return new EarlyNodes({ client, leaseDurationMs: 600_000, beforeSending, clock: space.clock });
}

async function addAll(early: EarlyNodes, nodes: readonly Made[]): Promise<void> {
  const memory = new Uint8Array(8 * 1024 * 1024);
  for (const { hash, canonical } of nodes) {
    // The same memory for each, as a scan has it.
    memory.set(canonical);
    await early.add(hash, memory.subarray(0, canonical.length), { files: 1, bytes: canonical.length });
  }
}

const lastOf = (nodes: readonly Made[]): Hash => (nodes.at(-1) as Made).hash;

const kinds = (space: FakeSpace): string[] => space.calls.map(({ kind }) => kind);

describe('what was sent', () => {
  test('is ready, counted once, and the lease of the last is known', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(60, 200_000);
    const early = startEarly(space);
    await addAll(early, [...nodes, ...nodes.slice(0, 5)]);
    // Some of it went while the rest was still coming.
    expect(kinds(space)).toContain('leases');
    const last = (await makeNodes(1, 8, () => nodes.map(({ hash }) => hash)))[0] as Made;
    await addAll(early, [last]);
    const counts = await early.finish(last.hash);
    await early.end();
    for (const { hash, canonical } of [...nodes, last]) {
      expect(Buffer.from(space.nodes.get(hash) as Uint8Array).equals(canonical)).toBe(true);
    }
    expect(counts).toMatchObject({ uploadedNodes: 61, files: 66 });
    expect(counts.lastLease).toMatchObject({ state: 'ready', hash: last.hash });
  });

  test('is only what the server lacked', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(20);
    const [first] = nodes as [Made];
    space.nodes.set(first.hash, first.canonical);
    const early = startEarly(space);
    await addAll(early, nodes);
    expect(await early.finish(lastOf(nodes))).toMatchObject({ uploadedNodes: 19, files: 20 });
    expect([...space.bulk.packs.values()].map(({ judged }) => judged?.size)).toEqual([19]);
    await early.end();
  });
});

describe('left to the push', () => {
  test('are large nodes, unless compressing saves a tenth of them', async () => {
    const space = bulkSpace();
    const [dense, sparse] = [randomBytes(600_000), Buffer.alloc(600_000, 'a line of text ')];
    const made = [];
    for (const content of [dense, sparse]) {
      const canonical = encodeNode({ contentType: 'application/x-early', refs: [], content });
      made.push({ hash: await hashCanonicalBytes(canonical), canonical });
    }
    const early = startEarly(space);
    await addAll(early, made);
    expect((await early.finish((made[1] as Made).hash)).uploadedNodes).toBe(1);
    expect([...space.nodes.keys()]).toEqual([(made[1] as Made).hash]);
    await early.end();
  });

  test('is all, where the server has no Bulk', async () => {
    const space = new FakeSpace();
    const early = startEarly(space);
    const nodes = await makeNodes(60, 200_000);
    await addAll(early, nodes);
    expect(await early.finish(lastOf(nodes))).toMatchObject({ uploadedNodes: 0, lastLease: undefined });
    await early.end();
    // One question may have told.
    expect(kinds(space).filter((kind) => kind !== 'leases')).toEqual([]);
    expect(kinds(space).length).toBeLessThanOrEqual(2);
  });

  test('is the rest, where most is there', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(400, 120_000);
    for (const { hash, canonical } of nodes) space.nodes.set(hash, canonical);
    const early = startEarly(space);
    await addAll(early, nodes);
    expect((await early.finish(lastOf(nodes))).uploadedNodes).toBe(0);
    await early.end();
    expect(new Set(kinds(space))).toEqual(new Set(['leases']));
    expect(kinds(space).length).toBeLessThan(6);
  });

  test('is what the server rejects, and nothing after it is sent', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(3);
    const rejection = { code: 'NODE_CONFLICT', message: 'planted' };
    space.plant('pack-lease', () =>
      json({ results: nodes.map(({ hash }) => ({ state: 'rejected', hash, rejection })) }),
    );
    const early = startEarly(space);
    await addAll(early, nodes);
    expect(await early.finish(lastOf(nodes))).toMatchObject({
      uploadedNodes: 0,
      files: 0,
      lastLease: undefined,
    });
    await early.end();
  });

  test('is what waits when the root turns out to be as it was', async () => {
    const space = bulkSpace();
    const [root, ...read] = (await makeNodes(4)) as [Made, ...Made[]];
    const early = startEarly(space);
    await addAll(early, read);
    expect(await early.finish(root.hash)).toMatchObject({ uploadedNodes: 0, files: 0, lastLease: undefined });
    await early.end();
    expect(space.calls).toEqual([]);
  });

  test('is a tree of a Space with damage: every node of it is to be looked at', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(3);
    space.plant('leases', ({ url, body }) => {
      const answer = space.bulk.answer('leases', url.pathname, body);
      answer.headers.set(ROTTEN_NODES_HEADER, '2');
      return answer;
    });
    const early = startEarly(space);
    await addAll(early, nodes);
    expect(await early.finish(lastOf(nodes))).toMatchObject({ uploadedNodes: 3, lastLease: undefined });
    await early.end();
  });
});

test('nothing is sent before it may be', async () => {
  const space = bulkSpace();
  const early = startEarly(space, () => Promise.reject(new Error('a pipe')));
  await expect(addAll(early, await makeNodes(60, 200_000))).rejects.toThrow('a pipe');
  await early.end();
  expect(space.calls).toEqual([]);
});

test('a request that fails for good ends it, and is told', async () => {
  const space = bulkSpace();
  space.plant('leases', () => failure(403, 'FORBIDDEN'));
  const early = startEarly(space);
  const nodes = await makeNodes(3);
  await addAll(early, nodes);
  await expect(early.finish(lastOf(nodes))).rejects.toThrow('FORBIDDEN');
  await expect(
    (async () => early.add((await makeNodes(1))[0]!.hash, new Uint8Array(1), { files: 0, bytes: 0 }))(),
  ).rejects.toThrow();
  await early.end();
});
