/** The push engine over Bulk, against one Space in memory: requests, packs, and what it does about faults. */
import { describe, expect, test } from 'bun:test';
import { PACKED_NODE_BYTES_MAX } from '../../bulk/packs.ts';
import { ZSTD } from '../../test/fake-bulk-fixture.ts';
import { expectCasError, FakeSpace, failure, json } from '../../test/fake-space-fixture.ts';
import { buildSmallFile, DirectoryBuilder } from '../build/builders.ts';
import type { DirectoryEntry } from '../format/tree-format.ts';
import { MemoryTree } from './memory-tree.ts';
import { SourceChangedError } from './node-supply.ts';
import { type PushOptions, pushTree } from './push-tree.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

type Plan = { readonly [name: string]: string | Plan };

async function build(
  tree: MemoryTree,
  plan: Plan,
): Promise<{ hash: string; bytes: number; entryCount: number }> {
  const directory = new DirectoryBuilder(tree);
  for (const name of Object.keys(plan).sort()) {
    const value = plan[name] as string | Plan;
    const isFile = typeof value === 'string';
    const built = isFile
      ? { ...(await buildSmallFile(tree, text(value))), entryCount: 0 }
      : await build(tree, value);
    const entry: DirectoryEntry = {
      name: text(name),
      kind: isFile ? 'file' : 'directory',
      ...built,
      isExecutable: false,
      mtimeNs: undefined,
    };
    await directory.add(entry);
  }
  return directory.finish();
}

const manyFiles = (count: number, salt = ''): Plan =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `file-${String(index).padStart(5, '0')}`,
      `${salt}content ${index}`,
    ]),
  );

const isOf =
  (...kinds: string[]) =>
  (kind: string) =>
    kinds.includes(kind);

async function push(space: FakeSpace, plan: Plan, options: PushOptions = {}) {
  const tree = new MemoryTree();
  const { hash } = await build(tree, plan);
  const client = space.client({ retry: { attemptsMax: 1 }, zstd: ZSTD });
  const before = space.calls.length;
  const result = await pushTree(client, tree.supply(hash), {
    clock: space.clock,
    random: () => 0.5,
    ...options,
  });
  for (const [each] of tree.nodes) expect(space.nodes.has(each)).toBe(true);
  return { ...result, tree, calls: space.calls.slice(before).map(({ kind }) => kind) };
}

function bulkSpace(): FakeSpace {
  const space = new FakeSpace();
  space.offersBulk = true;
  return space;
}

describe('requests', () => {
  test('a tree of 3,000 files takes a few, and one when nothing has changed', async () => {
    const space = bulkSpace();
    const plan = { a: manyFiles(1500, 'a'), b: { c: manyFiles(1500, 'b') } };
    const pushed = await push(space, plan);
    expect(pushed.calls.length).toBeLessThan(0.02 * 3000);
    expect(pushed.calls.filter((kind) => kind === 'lease' || kind === 'upload')).toEqual([]);
    expect(pushed.uploadedNodes).toBe(pushed.tree.nodes.size);
    const again = await push(space, plan);
    expect(again.calls).toEqual(['leases']);
    expect(again.uploadedNodes).toBe(0);
  });

  test('one changed file takes one pack with it and the folders above', async () => {
    const space = bulkSpace();
    const plan = { a: manyFiles(300, 'a'), b: { c: manyFiles(300, 'b') } };
    await push(space, plan);
    const pushed = await push(space, { ...plan, b: { c: { ...manyFiles(300, 'b'), new: 'new' } } });
    expect(pushed.calls.filter((kind) => kind.startsWith('pack'))).toEqual(['pack-upload', 'pack-lease']);
    expect(pushed.uploadedNodes).toBeLessThan(8);
  });
});

const PLAN = { a: manyFiles(60, 'a'), b: { c: manyFiles(60, 'b') } };

async function planOf(plan: Plan) {
  const tree = new MemoryTree();
  const { hash } = await build(tree, plan);
  return { tree, hash };
}

describe('what goes wrong with a pack', () => {
  test('an instruction that expired is signed anew, and the same pack is sent', async () => {
    const space = bulkSpace();
    space.plant('pack-upload', () => failure(403, 'FORBIDDEN'));
    const { calls, uploadedNodes, tree } = await push(space, PLAN);
    expect(calls.filter(isOf('pack-upload'))).toHaveLength(2);
    expect(calls.filter(isOf('lease', 'upload'))).toEqual([]);
    expect(uploadedNodes).toBe(tree.nodes.size);
  });

  test('a lost answer to its upload costs one more request', async () => {
    const space = bulkSpace();
    space.plant('pack-upload', ({ url, body }) => {
      space.bulk.answer('pack-upload', url.pathname, body);
      throw new TypeError('the connection broke');
    });
    const { calls, uploadedNodes, tree } = await push(space, PLAN);
    expect(calls.filter(isOf('pack-upload', 'pack-lease'))).toEqual([
      'pack-upload',
      'pack-upload',
      'pack-lease',
    ]);
    expect(uploadedNodes).toBe(tree.nodes.size);
  });

  test('nodes that became ready meanwhile do not travel again', async () => {
    const space = bulkSpace();
    const { tree } = await planOf(PLAN);
    const ready = [...tree.nodes].slice(0, 50);
    const supply = tree.supply([...tree.nodes.keys()].at(-1) as string);
    space.plant('pack-upload', async () => {
      for (const [hash] of ready)
        space.nodes.set(hash, await supply.makeNode({ hash, bytes: 0, entryCount: 0, isLeaf: true }));
      return failure(403, 'FORBIDDEN');
    });
    const pushed = await push(space, PLAN);
    expect(pushed.uploadedNodes).toBe(tree.nodes.size - ready.length);
    const travelled = [...space.bulk.packs.values()].map(({ judged }) => judged?.size ?? 0);
    expect(travelled.at(-1)).toBe(tree.nodes.size - ready.length);
    expect(pushed.calls.filter(isOf('pack-upload', 'pack-lease'))).toEqual([
      'pack-upload',
      'pack-lease',
      'pack-upload',
      'pack-lease',
    ]);
  });

  test('a pack that was cut off on the way: what is behind the cut goes into another', async () => {
    const space = bulkSpace();
    space.plant('pack-upload', ({ url, body }) =>
      space.bulk.answer('pack-upload', url.pathname, body.subarray(0, body.length / 2)),
    );
    const { calls, uploadedNodes, tree } = await push(space, PLAN);
    expect(calls.filter(isOf('pack-upload'))).toHaveLength(2);
    expect(uploadedNodes).toBe(tree.nodes.size);
  });

  test('packs that always arrive broken: the nodes go by themselves', async () => {
    const space = bulkSpace();
    for (let round = 0; round < 9; round += 1) {
      space.plant('pack-upload', ({ url }) =>
        space.bulk.answer('pack-upload', url.pathname, text('no pack')),
      );
    }
    const { calls, tree } = await push(space, { a: 'a', b: 'b' });
    expect(calls.filter(isOf('pack-upload')).length).toBeLessThanOrEqual(3);
    expect(calls.filter(isOf('upload'))).toHaveLength(tree.nodes.size);
  });

  test('one that the server forgot is asked for by its nodes', async () => {
    const space = bulkSpace();
    space.plant('pack-lease', () => failure(404, 'NOT_FOUND'));
    const { calls, tree, uploadedNodes } = await push(space, PLAN);
    expect(calls.filter(isOf('lease', 'upload'))).toEqual([]);
    expect(uploadedNodes).toBe(tree.nodes.size);
  });

  test('429 with Retry-After is waited out', async () => {
    const space = bulkSpace();
    const busy = () => failure(429, 'CAS_UPLOAD_LIMIT', { 'retry-after': '7' });
    space.plant('leases', busy);
    space.plant('pack-lease', busy);
    const { calls } = await push(space, PLAN);
    expect(space.clock.waits.filter((ms) => ms >= 7_000).length).toBeGreaterThanOrEqual(2);
    expect(calls.filter(isOf('lease', 'upload'))).toEqual([]);
  });

  test('a rejected record ends the push, and is named', async () => {
    const space = bulkSpace();
    const { tree, hash } = await planOf({ a: 'a', b: 'b' });
    const [victim = ''] = tree.nodes.keys();
    const rejection = { code: 'NODE_CONFLICT', message: 'planted' };
    space.plant('pack-lease', () => json({ results: [{ state: 'rejected', hash: victim, rejection }] }));
    const client = space.client({ retry: { attemptsMax: 1 } });
    const error = await expectCasError(
      pushTree(client, tree.supply(hash), { clock: space.clock }),
      'NODE_CONFLICT',
    );
    expect(error.message).toContain(victim);
  });

  test('a source that changed is told from damage on the way', async () => {
    const space = bulkSpace();
    const { tree, hash } = await planOf({ a: 'a', b: 'b' });
    const supply = tree.supply(hash);
    const [victim = ''] = tree.nodes.keys();
    let count = 0;
    const spoiled = {
      ...supply,
      makeNode: async (node: Parameters<typeof supply.makeNode>[0]) => {
        const bytes = await supply.makeNode(node);
        if (node.hash === victim && (isForever || count++ === 0)) bytes[bytes.length - 1]! ^= 1;
        return bytes;
      },
    };
    let isForever = false;
    const client = space.client({ retry: { attemptsMax: 1 } });
    await pushTree(client, spoiled, { clock: space.clock });
    expect(space.nodes.has(victim)).toBe(true);
    isForever = true;
    const other = bulkSpace();
    const pushing = pushTree(other.client({ retry: { attemptsMax: 1 } }), spoiled, { clock: other.clock });
    await expect(pushing).rejects.toBeInstanceOf(SourceChangedError);
  });
});

test('large nodes go by themselves, and never use up what the Space has of active uploads', async () => {
  const space = bulkSpace();
  space.uploadsMax = 8;
  const { tree, hash } = await planOf(manyFiles(400));
  const supply = tree.supply(hash);
  const sizeOf: typeof supply.sizeOf = (node) =>
    tree.nodes.get(node.hash)?.refs.length === 0 ? PACKED_NODE_BYTES_MAX + 1 : supply.sizeOf(node);
  const client = space.client({ retry: { attemptsMax: 1 } });
  const { uploadedNodes } = await pushTree(
    client,
    { ...supply, sizeOf },
    { clock: space.clock, parallelMax: 8 },
  );
  expect(uploadedNodes).toBe(tree.nodes.size);
  expect(space.calls.filter(({ kind }) => kind === 'upload')).toHaveLength(400);
});

describe('a server without Bulk', () => {
  test.each(['leases', 'pack-upload', 'pack-lease'] as const)(
    'that stops offering it at %s ends the same',
    async (kind) => {
      const space = bulkSpace();
      space.plant(kind, () => {
        space.offersBulk = false;
        return failure(404, 'NOT_FOUND');
      });
      const { calls, tree, root } = await push(space, PLAN);
      expect(space.nodes.has(root)).toBe(true);
      expect(calls.filter(isOf('upload'))).toHaveLength(tree.nodes.size);
      expect(calls.filter(isOf('leases')).length).toBeLessThanOrEqual(5);
    },
  );

  test('gets the same tree', async () => {
    const [inBulk, single] = [bulkSpace(), new FakeSpace()];
    const [one, other] = [await push(inBulk, PLAN), await push(single, PLAN)];
    expect(one.root).toBe(other.root);
    expect([...inBulk.nodes].toSorted()).toEqual([...single.nodes].toSorted());
  });
});

describe('what is there', () => {
  test('check leases every node in a few requests, and uploads what was lost', async () => {
    const space = bulkSpace();
    const { tree } = await push(space, PLAN);
    const lost = [...tree.nodes.keys()].slice(3, 5);
    for (const hash of lost) space.nodes.delete(hash);
    const checked = await push(space, PLAN, { check: true });
    expect(checked.uploadedNodes).toBe(lost.length);
    expect(checked.calls.length).toBeLessThan(15);
  });

  test('a Space with damaged nodes is looked at below what is ready', async () => {
    const space = bulkSpace();
    const { tree } = await push(space, PLAN);
    const [lost = ''] = tree.nodes.keys();
    space.nodes.delete(lost);
    space.rottenNodes = 1;
    expect((await push(space, PLAN)).uploadedNodes).toBe(1);
  });

  test('an interrupted push goes on where parents wait', async () => {
    const space = bulkSpace();
    const stop = new AbortController();
    space.plant('pack-lease', ({ url, body }) => {
      const answer = space.bulk.answer('pack-lease', url.pathname, body);
      stop.abort(new Error('stopped'));
      return answer;
    });
    await expect(push(space, PLAN, { signal: stop.signal })).rejects.toThrow('stopped');
    const { calls, uploadedNodes } = await push(space, PLAN);
    expect([calls, uploadedNodes]).toEqual([['leases'], 0]);
  });
});
