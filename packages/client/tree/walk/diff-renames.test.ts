/** Renames in a diff: what was moved is said once, and with them the differences still lead from one tree to the other. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { buildModel, MemoryNodes, type TreeModel, utf8 } from '../../test/tree-fixture.ts';
import type { TreeItem } from '../read/open-tree.ts';
import { diffWithRenames, type RenameOptions } from './diff-renames.ts';
import { formatPath } from './tree-path.ts';
import { walkTree } from './walk-tree.ts';

type Plain = { readonly [name: string]: Plain | number };

/** Numbers are the sizes of files, each with a content of its own. */
function model(plain: Plain): TreeModel {
  const children = Object.entries(plain).map(([name, below]): [Uint8Array, TreeModel] => [
    utf8(name),
    typeof below === 'number'
      ? { kind: 'file', content: new Uint8Array(below).fill(below), isExecutable: false, mtimeNs: undefined }
      : model(below),
  ]);
  return { kind: 'directory', children };
}

async function build(nodes: MemoryNodes, plain: Plain): Promise<TreeItem> {
  return { isExecutable: false, mtimeNs: undefined, ...(await buildModel(nodes, model(plain))) };
}

async function diff(before: Plain, after: Plain, options?: RenameOptions): Promise<string[]> {
  const nodes = new MemoryNodes();
  const [from, to] = [await build(nodes, before), await build(nodes, after)];
  const lines: string[] = [];
  for await (const difference of diffWithRenames(nodes, from, to, options)) {
    const old = difference.type === 'renamed' ? `${formatPath(difference.from)} → ` : '';
    lines.push(`${difference.type} ${old}${formatPath(difference.path)}`);
  }
  return lines;
}

test('a folder that was renamed is one difference, whatever is in it', async () => {
  const docs = { a: 1, b: 2, deep: { c: 3, d: 4 } };
  expect(await diff({ docs, x: 9 }, { manual: docs, x: 9 })).toEqual(['renamed docs → manual']);
});

test('what was moved into a new folder, or out of one that is gone, is found too', async () => {
  const docs = { a: 1, deep: { c: 3 } };
  expect(await diff({ docs }, { new: { docs, more: 8 } })).toEqual([
    'added new',
    'renamed docs → new/docs',
    'added new/more',
  ]);
  expect(await diff({ old: { docs, more: 8 } }, { docs })).toEqual([
    'renamed old/docs → docs',
    'removed old',
    'removed old/more',
  ]);
});

test('of several that fit the one of the same name is taken, and each only once', async () => {
  expect(await diff({ a: { x: 5, y: 5 } }, { b: { y: 5, z: 5, w: 5 } })).toEqual([
    'removed a',
    'added b',
    'renamed a/x → b/w',
    'renamed a/y → b/y',
    'added b/z',
  ]);
});

test('what is empty, and what is more than is compared, is not told as renamed', async () => {
  expect(await diff({ a: 0 }, { b: 0 })).toEqual(['removed a', 'added b']);
  expect(await diff({ a: 1, b: 2 }, { c: 1, d: 2 }, { entriesMax: 3 })).toHaveLength(4);
});

const { tree } = fc.letrec<{ tree: Plain }>((tie) => ({
  tree: fc.dictionary(
    fc.constantFrom('a', 'b', 'c', 'd'),
    fc.oneof({ maxDepth: 3 }, fc.integer({ min: 0, max: 3 }), tie('tree')),
    { maxKeys: 4 },
  ) as fc.Arbitrary<Plain>,
}));

/** Path to what is there. */
async function list(nodes: MemoryNodes, root: TreeItem): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const step of walkTree(nodes, root)) {
    if (step.type !== 'entry') continue;
    const { kind, hash } = step.entry;
    found.set(formatPath(step.path), kind === 'directory' ? kind : hash);
  }
  return found;
}

test('the differences lead from one tree to the other', async () => {
  await fc.assert(
    fc.asyncProperty(tree, tree, async (before, after) => {
      const nodes = new MemoryNodes();
      const [from, to] = [await build(nodes, before), await build(nodes, after)];
      const old = await list(nodes, from);
      const now = new Map(old);
      const wanted = await list(nodes, to);
      const differences = await Array.fromAsync(diffWithRenames(nodes, from, to));
      for (const difference of differences) {
        if (difference.type === 'removed') now.delete(formatPath(difference.path));
        if (difference.type !== 'renamed') continue;
        const gone = formatPath(difference.from);
        for (const path of old.keys()) if (path === gone || path.startsWith(`${gone}/`)) now.delete(path);
      }
      for (const difference of differences) {
        const at = formatPath(difference.path);
        const { after: item } = difference;
        if (item === undefined) continue;
        now.set(at, item.kind === 'directory' ? item.kind : item.hash);
        if (difference.type !== 'renamed') continue;
        const source = formatPath(difference.from);
        for (const [path, what] of old) {
          if (path.startsWith(`${source}/`)) now.set(`${at}${path.slice(source.length)}`, what);
        }
      }
      expect([...now].sort()).toEqual([...wanted].sort());
    }),
  );
});
