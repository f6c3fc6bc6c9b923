/** The push engine over Bulk, against one Space in memory: requests, packs, and what it does about faults. */
import { describe, expect, test } from 'bun:test';
import { ZSTD } from '../../test/fake-bulk-fixture.ts';
import { FakeSpace } from '../../test/fake-space-fixture.ts';
import { buildSmallFile, DirectoryBuilder } from '../build/builders.ts';
import type { DirectoryEntry } from '../format/tree-format.ts';
import { MemoryTree } from './memory-tree.ts';
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
