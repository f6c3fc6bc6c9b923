/** A tree in memory as a push takes it: what its nodes are said to have is what they have. */
import { expect, test } from 'bun:test';
import { encodeNode } from '@holdfast/protocol';
import { FakeSpace } from '../../test/fake-space-fixture.ts';
import { fileEntry, noise } from '../../test/tree-fixture.ts';
import { buildFile, buildSymlink, DirectoryBuilder } from '../build/builders.ts';
import { MemoryTree } from './memory-tree.ts';
import type { PushNode } from './node-supply.ts';
import { planPush } from './plan-push.ts';

const FILE_BYTES = 25_600;
const LARGE_FILE_BYTES = 9_000_000;
const TARGET = new TextEncoder().encode('a/target');

async function build(): Promise<{ readonly tree: MemoryTree; readonly root: string }> {
  const tree = new MemoryTree();
  const directory = new DirectoryBuilder(tree);
  const large = noise(1, LARGE_FILE_BYTES);
  await directory.add(fileEntry('file', await buildFile(tree, [new Uint8Array(FILE_BYTES).fill(7)])));
  await directory.add(fileEntry('large', await buildFile(tree, [large])));
  await directory.add(fileEntry('link', { kind: 'symlink', ...(await buildSymlink(tree, TARGET)) }));
  return { tree, root: (await directory.finish()).hash };
}

test('a plan counts the bytes of every file, whatever it is made of', async () => {
  const { tree, root } = await build();
  const bytes = FILE_BYTES + LARGE_FILE_BYTES + TARGET.length;
  const space = new FakeSpace();
  const plan = await planPush(space.client(), tree.supply(root), { clock: space.clock });
  expect(plan).toMatchObject({ bytes, missingBytes: bytes, missingNodes: tree.nodes.size });
});

test('a node without children is a leaf, and each has the size that it is said to have', async () => {
  const { tree, root } = await build();
  const supply = tree.supply(root);
  const look = async (node: PushNode): Promise<number> => {
    const parts = tree.nodes.get(node.hash);
    if (parts === undefined) throw new Error('every node is in the tree');
    expect(node.isLeaf).toBe(parts.refs.length === 0);
    expect(supply.sizeOf(node)).toBe(encodeNode(parts).length);
    let count = 1;
    for (const child of await supply.listChildren(node)) count += await look(child);
    return count;
  };
  expect(await look(supply.root)).toBe(tree.nodes.size);
});
