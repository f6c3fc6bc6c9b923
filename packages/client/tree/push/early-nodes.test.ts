/** Nodes that are sent while a tree is read, against one Space in memory: what arrives, and what is left to the push. */
import { describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { encodeNode, type Hash, ROTTEN_NODES_HEADER } from '@holdfast/protocol';
import { PACKED_NODE_BYTES_MAX } from '../../bulk/packs.ts';
import { hashCanonicalBytes } from '../../digest.ts';
import { ZSTD } from '../../test/fake-bulk-fixture.ts';
import { type Call, FakeSpace, type Fault, failure, json } from '../../test/fake-space-fixture.ts';
import { CHUNK_BYTES_MAX } from '../format/tree-format.ts';
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

/** Nothing compresses it. */
async function makeDense(bytes: number): Promise<Made> {
  const canonical = encodeNode({ contentType: 'application/x-early', refs: [], content: randomBytes(bytes) });
  return { hash: await hashCanonicalBytes(canonical), canonical };
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

  test('is compressed where that pays, and no frame is looked at once it was given back', async () => {
    const space = bulkSpace();
    let released = 0;
    const release = (frame: Uint8Array): void => {
      released += 1;
      frame.fill(0);
    };
    const client = space.client({ retry: { attemptsMax: 1 }, zstd: { ...ZSTD, release } });
    const { clock } = space;
    const beforeSending = async (): Promise<void> => undefined;
    const early = new EarlyNodes({ client, leaseDurationMs: 600_000, beforeSending, clock });
    const nodes: Made[] = [];
    for (let at = 0; at < 300; at += 1) {
      const content = Buffer.from(`${at} ${randomBytes(30_000).toString('base64')}`);
      const canonical = encodeNode({ contentType: 'application/x-early', refs: [], content });
      nodes.push({ hash: await hashCanonicalBytes(canonical), canonical });
    }
    await addAll(early, nodes);
    expect((await early.finish(lastOf(nodes))).uploadedNodes).toBe(nodes.length);
    await early.end();
    for (const { hash, canonical } of nodes)
      expect(Buffer.from(space.nodes.get(hash) as Uint8Array).equals(canonical)).toBe(true);
    expect(released).toBe(nodes.length);
  });

  test('are also chunks that nothing compresses, each larger than a pack is to be on a slow line', async () => {
    const space = bulkSpace();
    const slowly = () => {
      space.clock.startTimer(30_000, () => undefined);
      return undefined;
    };
    for (let pack = 0; pack < 30; pack += 1) space.plant('pack-upload', slowly);
    const nodes: Made[] = [];
    for (let at = 0; at < 20; at += 1) nodes.push(await makeDense(2_000_000));
    nodes.push(await makeDense(CHUNK_BYTES_MAX));
    const early = startEarly(space);
    await addAll(early, nodes);
    const { hash } = nodes.at(-1) as Made;
    expect(await early.finish(hash)).toMatchObject({
      uploadedNodes: 21,
      lastLease: { state: 'ready', hash },
    });
    await early.end();
    expect(new Set(kinds(space))).toEqual(new Set(['leases', 'pack-upload', 'pack-lease']));
    const sizes = [...space.bulk.packs.values()].map(({ judged }) => judged?.size);
    expect(sizes.slice(-3)).toEqual([1, 1, 1]);
  });

  test('is every node of several that are given at once, while the server takes its time', async () => {
    const space = bulkSpace();
    const answers: (() => void)[] = [];
    for (let pack = 0; pack < 40; pack += 1) {
      space.plant('pack-upload', async ({ url, body }) => {
        await new Promise<void>((resolve) => answers.push(resolve));
        return space.bulk.answer('pack-upload', url.pathname, body);
      });
    }
    const early = startEarly(space);
    let isAdded = false;
    const answerAll = (async () => {
      while (!isAdded || answers.length > 0) {
        answers.shift()?.();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    const nodes: Made[] = [];
    for (let at = 0; at < 36; at += 1) nodes.push(await makeDense(1_300_000));
    const memory = nodes.map(({ canonical }) => canonical.slice());
    // Six files at a time, as it were: each waits for its own node alone.
    const lanes = [0, 1, 2, 3, 4, 5].map(async (lane) => {
      for (let at = lane; at < nodes.length; at += 6) {
        const bytes = memory[at] as Uint8Array;
        await early.add((nodes[at] as Made).hash, bytes, { files: 0, bytes: bytes.length });
        // A buffer that nothing reads any more may be used again.
        bytes.fill(0);
      }
    });
    await Promise.all(lanes);
    const last = (await makeNodes(1, 8, () => nodes.map(({ hash }) => hash)))[0] as Made;
    await addAll(early, [last]);
    const finishing = early.finish(last.hash);
    const { uploadedNodes } = await finishing;
    isAdded = true;
    await answerAll;
    expect(uploadedNodes).toBe(37);
    for (const { hash, canonical } of nodes)
      expect(Buffer.from(space.nodes.get(hash) as Uint8Array).equals(canonical)).toBe(true);
    await early.end();
  });

  test('is compressed on another thread too, twins once', async () => {
    const space = bulkSpace();
    const compressAside = async (bytes: Uint8Array): Promise<Uint8Array> => {
      await new Promise((resolve) => setImmediate(resolve));
      return ZSTD.compress!(bytes)!;
    };
    const client = space.client({ retry: { attemptsMax: 1 }, zstd: { ...ZSTD, compressAside } });
    const { clock } = space;
    const beforeSending = async (): Promise<void> => undefined;
    const early = new EarlyNodes({ client, leaseDurationMs: 600_000, beforeSending, clock });
    const nodes: Made[] = [];
    for (let at = 0; at < 240; at += 1) {
      const content = Buffer.from(`${at} ${randomBytes(30_000).toString('base64')}`);
      const canonical = encodeNode({ contentType: 'application/x-early', refs: [], content });
      nodes.push({ hash: await hashCanonicalBytes(canonical), canonical });
    }
    for (let at = 0; at < nodes.length; at += 3) {
      const some = nodes.slice(at, at + 3);
      await Promise.all(
        [...some, ...some].map(({ hash, canonical }) =>
          early.add(hash, canonical, { files: 1, bytes: canonical.length }),
        ),
      );
    }
    const root = await parentOf(nodes);
    await addAll(early, [root]);
    expect(await early.finish(root.hash)).toMatchObject({ uploadedNodes: 241, files: 481 });
    await early.end();
    for (const { hash, canonical } of nodes)
      expect(Buffer.from(space.nodes.get(hash) as Uint8Array).equals(canonical)).toBe(true);
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

const parentOf = async (nodes: readonly Made[]): Promise<Made> =>
  (await makeNodes(1, 8, () => nodes.map(({ hash }) => hash)))[0] as Made;

describe('parents that were judged before their children', () => {
  /** The first pack is judged only when the one with `last` was; `meanwhile` is called in between. */
  function judgeFirstPackLast(space: FakeSpace, last: Made, meanwhile = (): void => undefined): void {
    const isJudged = Promise.withResolvers<void>();
    const judge: Fault = ({ url, body }) => space.bulk.answer('pack-lease', url.pathname, body);
    const others: Fault = async (call) => {
      const answer = (await judge(call)) as Response;
      if ((await answer.clone().text()).includes(last.hash)) isJudged.resolve();
      return answer;
    };
    const first: Fault = async (call) => {
      await isJudged.promise;
      meanwhile();
      return (await judge(call)) as Response;
    };
    space.plant('pack-lease', first, ...Array.from({ length: 20 }, () => others));
  }

  test('are leased with one more request, and the root is ready', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(60, 200_000);
    const folder = await parentOf(nodes);
    const root = await parentOf([folder]);
    judgeFirstPackLast(space, root);
    const early = startEarly(space);
    await addAll(early, [...nodes, folder, root]);
    const { lastLease } = await early.finish(root.hash);
    await early.end();
    expect(lastLease).toMatchObject({ state: 'ready', hash: root.hash });
    const last = space.calls.at(-1) as Call;
    const { hashes } = JSON.parse(new TextDecoder().decode(last.body)) as { hashes: Hash[] };
    expect([last.kind, hashes]).toEqual(['leases', [folder.hash, root.hash]]);
  });

  test('prove nothing when the Space has damage by then', async () => {
    const space = bulkSpace();
    const nodes = await makeNodes(60, 200_000);
    const root = await parentOf(nodes);
    judgeFirstPackLast(space, root, () => {
      space.rottenNodes = 1;
    });
    const early = startEarly(space);
    await addAll(early, [...nodes, root]);
    expect((await early.finish(root.hash)).lastLease).toBeUndefined();
    await early.end();
  });

  test('are left to the push where a node below them is', async () => {
    const space = bulkSpace();
    const large = await makeDense(PACKED_NODE_BYTES_MAX);
    const root = await parentOf([large]);
    const early = startEarly(space);
    await addAll(early, [large, root]);
    expect((await early.finish(root.hash)).lastLease).toBeUndefined();
    await early.end();
    expect(kinds(space)).toEqual(['leases', 'pack-upload', 'pack-lease']);
  });
});

describe('left to the push', () => {
  test('are nodes larger than any chunk of a file', async () => {
    const space = bulkSpace();
    const [small, large] = [
      await makeDense(PACKED_NODE_BYTES_MAX - 100),
      await makeDense(PACKED_NODE_BYTES_MAX),
    ];
    const early = startEarly(space);
    await addAll(early, [small, large]);
    expect((await early.finish(small.hash)).uploadedNodes).toBe(1);
    expect([...space.nodes.keys()]).toEqual([small.hash]);
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

  test('is the rest of a large file, where a few of its chunks are there', async () => {
    const space = bulkSpace();
    const nodes: Made[] = [];
    for (let at = 0; at < 36; at += 1) nodes.push(await makeDense(2_000_000));
    for (const { hash, canonical } of nodes) space.nodes.set(hash, canonical);
    const early = startEarly(space);
    await addAll(early, nodes);
    expect((await early.finish(lastOf(nodes))).uploadedNodes).toBe(0);
    await early.end();
    // Packs of two chunks were offered until 8 MiB were found; some were on their way by then.
    expect(kinds(space).every((kind) => kind === 'leases')).toBe(true);
    expect(kinds(space).length).toBeLessThan(12);
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
