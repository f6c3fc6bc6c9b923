/** Walks over trees in memory: everything in order, counted right, and every fault found. */
import { describe, expect, test } from 'bun:test';
import { encodeNodeHeader } from '@holdfast/protocol';
import fc from 'fast-check';
import { CasError } from '../../errors.ts';
import { rejection } from '../../test/fake-space-fixture.ts';
import {
  buildDirectory,
  buildModel,
  fileEntry,
  MemoryNodes,
  type TreeModel,
  utf8,
} from '../../test/tree-fixture.ts';
import { OrdinalSet } from '../pull/check-target.ts';
import { PullSelection } from '../pull/selection.ts';
import type { TreeItem } from '../read/open-tree.ts';
import { type Difference, diffTrees } from './diff-trees.ts';
import { measureTrees } from './measure-trees.ts';
import { formatName, formatPath, pathBytes, pathNames, type TreePath } from './tree-path.ts';
import { type TreeFault, verifyTree } from './verify-tree.ts';
import { type WalkedEntry, walkTree } from './walk-tree.ts';

const name = fc.constantFrom('a', 'b', 'c', 'dd', 'E', 'f.txt', 'g g').map(utf8);
const content = fc.integer({ min: 0, max: 6 }).map((size) => new Uint8Array(size).fill(size));
const { model } = fc.letrec<{ model: TreeModel }>((tie) => ({
  model: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.record({
      kind: fc.constant('file' as const),
      content,
      isExecutable: fc.boolean(),
      mtimeNs: fc.constantFrom(undefined, 5n),
    }),
    fc.record({ kind: fc.constant('symlink' as const), target: fc.constantFrom(utf8('x'), utf8('../y')) }),
    fc.record({
      kind: fc.constant('directory' as const),
      children: fc.uniqueArray(fc.tuple(name, tie('model')), {
        maxLength: 6,
        selector: ([raw]) => String(raw),
      }),
    }),
  ),
}));
const folder = fc
  .uniqueArray(fc.tuple(name, model), { maxLength: 6, selector: ([raw]) => String(raw) })
  .map((children): TreeModel => ({ kind: 'directory', children }));

/** The file system a model stands for: path to what is there, in the order of a walk. */
function flatten(tree: TreeModel, path = '', into = new Map<string, string>()): Map<string, string> {
  if (tree.kind !== 'directory') return into;
  const sorted = tree.children.toSorted(([a], [b]) => Buffer.compare(a, b));
  for (const [raw, below] of sorted) {
    const at = path === '' ? Buffer.from(raw).toString() : `${path}/${Buffer.from(raw)}`;
    if (below.kind === 'file') into.set(at, `file ${below.content} ${below.isExecutable} ${below.mtimeNs}`);
    else if (below.kind === 'symlink') into.set(at, `link ${below.target}`);
    else into.set(at, 'directory');
    flatten(below, at, into);
  }
  return into;
}

async function build(nodes: MemoryNodes, tree: TreeModel): Promise<TreeItem> {
  return { isExecutable: false, mtimeNs: undefined, ...(await buildModel(nodes, tree)) };
}

async function walkAll(
  nodes: MemoryNodes,
  root: TreeItem,
  enter?: (path: TreePath) => boolean,
): Promise<WalkedEntry[]> {
  const steps = await Array.fromAsync(walkTree(nodes, root, { enter }));
  return steps.filter((step) => step.type === 'entry');
}

describe('a walk', () => {
  test('meets every entry in order, and counts those it passes by', async () => {
    await fc.assert(
      fc.asyncProperty(folder, fc.func(fc.boolean()), async (tree, choose) => {
        const nodes = new MemoryNodes();
        const root = await build(nodes, tree);
        const all = await walkAll(nodes, root);
        expect(all.map(({ path }) => formatPath(path))).toEqual([...flatten(tree).keys()]);
        expect(all.map(({ ordinal }) => ordinal)).toEqual(all.map((_, index) => index));
        const some = await walkAll(nodes, root, (path) => choose(formatPath(path)));
        for (const { path, ordinal } of some) expect(formatPath(all[ordinal]!.path)).toBe(formatPath(path));
      }),
      { numRuns: 30 },
    );
  });

  test('leaves every directory it entered after all below it', async () => {
    await fc.assert(
      fc.asyncProperty(folder, async (tree) => {
        const nodes = new MemoryNodes();
        const open: string[] = ['.'];
        for await (const step of walkTree(nodes, await build(nodes, tree))) {
          if (step.type === 'left') expect(open.pop()).toBe(formatPath(step.path));
          else {
            expect(formatPath(step.path.parent)).toBe(open.at(-1)!);
            if (step.isEntered) open.push(formatPath(step.path));
          }
        }
        expect(open).toEqual([]);
      }),
    );
  });

  test('reads each directory once, a few ahead', async () => {
    const nodes = new MemoryNodes();
    const child = (i: number): [Uint8Array, TreeModel] => [
      utf8(`d${i}`),
      { kind: 'directory', children: [[utf8(`f${i}`), { kind: 'symlink', target: utf8(`${i}`) }]] },
    ];
    const root = await build(nodes, {
      kind: 'directory',
      children: Array.from({ length: 100 }, (_, i) => child(i)),
    });
    // Beside the directories and links below it.
    const ownNodes = nodes.emitted.length - 200;
    const walk = walkTree(nodes, root);
    await walk.next();
    expect(nodes.reads.length).toBeLessThanOrEqual(ownNodes + 32);
    for await (const _ of walk);
    expect(nodes.reads).toHaveLength(ownNodes + 100);
  });

  test('a chain of 20,000 directories', async () => {
    const nodes = new MemoryNodes();
    let built = await buildDirectory(nodes, [fileEntry('bottom')]);
    for (let level = 0; level < 20_000; level += 1) {
      built = await buildDirectory(nodes, [fileEntry('d', { kind: 'directory', ...built })]);
    }
    let entries = 0;
    for await (const step of walkTree(nodes, built)) if (step.type === 'entry') entries += 1;
    expect(entries).toBe(20_001);
  });

  test('names the path of what cannot be read', async () => {
    const nodes = new MemoryNodes();
    const lost = fileEntry('lost', { kind: 'directory' });
    const root = await buildDirectory(nodes, [
      fileEntry('sub', { kind: 'directory', ...(await buildDirectory(nodes, [lost])) }),
    ]);
    const missing = new CasError('readContent: no such node', {
      code: 'NOT_FOUND',
      requestOperation: 'readContent',
    });
    const source = {
      readNode: (hash: string) => (nodes.nodes.has(hash) ? nodes.readNode(hash) : Promise.reject(missing)),
    };
    const error = await rejection(Array.fromAsync(walkTree(source, root)));
    expect(String(error)).toMatch(/sub\/lost: .*not in this Space/);
  });
});

describe('a diff', () => {
  const describeOne = ({ type, path }: Difference): string => `${type} ${formatPath(path)}`;

  test('is what two listings differ in', async () => {
    await fc.assert(
      fc.asyncProperty(folder, folder, async (before, after) => {
        const nodes = new MemoryNodes();
        const [a, b] = [flatten(before), flatten(after)];
        const expected: string[] = [];
        for (const path of new Set([...a.keys(), ...b.keys()])) {
          const [x, y] = [a.get(path), b.get(path)];
          if (x === y) continue;
          // A directory on one side alone comes and goes whole.
          const isWhole = x === undefined || y === undefined || x === 'directory' || y === 'directory';
          if (isWhole && x !== undefined) expected.push(`removed ${path}`);
          if (isWhole && y !== undefined) expected.push(`added ${path}`);
          if (!isWhole) expected.push(`modified ${path}`);
        }
        const found = await Array.fromAsync(
          diffTrees(nodes, await build(nodes, before), await build(nodes, after)),
        );
        expect(found.map(describeOne).toSorted()).toEqual(expected.toSorted());
      }),
      { numRuns: 50 },
    );
  });

  test('of one changed file in a wide directory reads its page and the indexes alone', async () => {
    const nodes = new MemoryNodes();
    const wide = (change: number): Iterable<ReturnType<typeof fileEntry>> =>
      Array.from({ length: 20_000 }, (_, i) =>
        fileEntry(`f${String(i).padStart(6, '0')}`, { bytes: i === change ? 7 : 1 }),
      );
    const item = async (change: number): Promise<TreeItem> => ({
      kind: 'directory',
      isExecutable: false,
      mtimeNs: undefined,
      ...(await buildDirectory(nodes, wide(change))),
    });
    const [before, after] = [await item(-1), await item(9_999)];
    nodes.reads.length = 0;
    const differences = await Array.fromAsync(diffTrees(nodes, before, after));
    // The hash is made of the name here, so nothing of the entry differs but its size.
    expect(differences).toEqual([]);
    expect(nodes.reads.length).toBeLessThan(20);
    nodes.reads.length = 0;
    expect(await Array.fromAsync(diffTrees(nodes, before, before))).toEqual([]);
    expect(nodes.reads).toEqual([]);
  });
});

describe('verifying', () => {
  async function faultsOf(nodes: MemoryNodes, root: string): Promise<{ faults: TreeFault[]; nodes: number }> {
    const faults: TreeFault[] = [];
    const source = {
      readNode: async (hash: string) => {
        if (nodes.nodes.has(hash)) return nodes.readNode(hash);
        throw new CasError('readContent: no such node', {
          code: 'NOT_FOUND',
          requestOperation: 'readContent',
        });
      },
    };
    const result = await verifyTree(source, root, { onFault: (fault) => faults.push(fault) });
    expect(result.faults).toBe(faults.length);
    return { faults, nodes: result.nodes };
  }

  test('reads every distinct node once and finds nothing in a good tree', async () => {
    await fc.assert(
      fc.asyncProperty(folder, async (tree) => {
        const nodes = new MemoryNodes();
        const { hash } = await build(nodes, tree);
        const result = await faultsOf(nodes, hash);
        expect(result.faults).toEqual([]);
        // The same file may be expected with and without a mode or time, never with another size: once each.
        expect(result.nodes).toBe(nodes.nodes.size);
      }),
      { numRuns: 30 },
    );
  });

  test('names every place of a lost node, and goes on beside it', async () => {
    await fc.assert(
      fc.asyncProperty(folder, fc.nat(), async (tree, choice) => {
        const nodes = new MemoryNodes();
        const root = await build(nodes, tree);
        const all = await walkAll(nodes, root);
        if (all.length === 0) return;
        const { hash } = all[choice % all.length]!.entry;
        const places = all.filter(({ entry }) => entry.hash === hash).map(({ path }) => formatPath(path));
        nodes.nodes.delete(hash);
        const { faults } = await faultsOf(nodes, root.hash);
        expect(new Set(faults.map((fault) => fault.hash))).toEqual(new Set([hash]));
        // A place below a directory that stands twice may be met once: it was read once.
        for (const { path } of faults) expect(places).toContain(formatPath(path));
        expect(faults.length).toBeGreaterThan(0);
      }),
      { numRuns: 30 },
    );
  });

  test('finds what is good by itself and wrong in its place', async () => {
    const nodes = new MemoryNodes();
    const { hash } = await buildModel(nodes, {
      kind: 'file',
      content: utf8('12345'),
      isExecutable: false,
      mtimeNs: undefined,
    });
    const entries = [
      fileEntry('good', { hash, bytes: 5 }),
      fileEntry('link', { hash, bytes: 5, kind: 'symlink' }),
      fileEntry('size', { hash, bytes: 6 }),
    ];
    const { hash: root } = await buildDirectory(nodes, entries);
    const { faults } = await faultsOf(nodes, root);
    expect(faults.map(({ path }) => formatPath(path)).toSorted()).toEqual(['link', 'size']);
  });

  test('a root that is not there is a fault; a server that refuses is none', async () => {
    expect((await faultsOf(new MemoryNodes(), 'a'.repeat(64))).faults).toHaveLength(1);
    const refusal = new CasError('no', { code: 'insufficient_permission', requestOperation: 'readContent' });
    expect(await rejection(verifyTree({ readNode: () => Promise.reject(refusal) }, 'a'.repeat(64)))).toBe(
      refusal,
    );
  });
});

test('usage: own and shared bytes add up to what is stored', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(folder, { minLength: 1, maxLength: 4 }), async (trees) => {
      const nodes = new MemoryNodes();
      const reach: Set<string>[] = [];
      const roots: string[] = [];
      for (const tree of trees) {
        const { hash } = await build(nodes, tree);
        roots.push(hash);
        reach.push(reachable(nodes, hash));
      }
      const distinct = [...new Set(roots)];
      const usages = await measureTrees(nodes, distinct);
      for (const [index, usage] of usages.entries()) {
        const own = reach[roots.indexOf(distinct[index]!)]!;
        const others = distinct.flatMap((root, at) => (at === index ? [] : [...reach[roots.indexOf(root)]!]));
        const sum = (hashes: Iterable<string>): number =>
          [...hashes].reduce((total, hash) => total + storedSize(nodes, hash), 0);
        expect(usage.nodes).toBe(own.size);
        expect(usage.ownBytes).toBe(sum([...own].filter((hash) => !others.includes(hash))));
        expect(usage.sharedBytes).toBe(sum([...own].filter((hash) => others.includes(hash))));
      }
    }),
    { numRuns: 30 },
  );
});

test('usage asks for many directories at once where a request brings many', async () => {
  const nodes = new MemoryNodes();
  const entries = [];
  for (let index = 0; index < 300; index += 1) {
    const below = await buildDirectory(nodes, [fileEntry('f', { hash: String(index).padStart(64, '0') })]);
    entries.push(fileEntry(`d${String(index).padStart(3, '0')}`, { kind: 'directory', ...below }));
  }
  const { hash: root } = await buildDirectory(nodes, entries);
  let asked = 0;
  let askedMax = 0;
  const readNode = async (hash: string): ReturnType<MemoryNodes['readNode']> => {
    askedMax = Math.max(askedMax, ++asked);
    await Bun.sleep(0);
    asked -= 1;
    return nodes.readNode(hash);
  };
  const counted: number[] = [];
  const onCounted = (count: number): void => void counted.push(count);
  const inBatches = await measureTrees({ nodesAtOnce: 1024, readNode }, [root], { onCounted });
  expect(askedMax).toBe(256);
  expect(counted).toEqual(counted.toSorted((left, right) => left - right));
  expect(counted.length).toBeGreaterThan(1);
  expect(counted.at(-1)).toBe(inBatches[0]?.nodes);
  askedMax = 0;
  expect(await measureTrees({ readNode }, [root])).toEqual(inBatches);
  expect(askedMax).toBe(16);
});

function reachable(nodes: MemoryNodes, hash: string, into = new Set<string>()): Set<string> {
  into.add(hash);
  for (const ref of nodes.nodes.get(hash)!.refs) reachable(nodes, ref, into);
  return into;
}

function storedSize(nodes: MemoryNodes, hash: string): number {
  const node = nodes.nodes.get(hash)!;
  return encodeNodeHeader({ ...node, size: node.content.length }).length + node.content.length;
}

test('positions are remembered one by one, however far apart', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.nat(100_000), fc.maxSafeNat())),
      fc.array(fc.nat(100_000)),
      (added, asked) => {
        const set = new OrdinalSet();
        for (const ordinal of added) set.add(ordinal);
        for (const ordinal of [...added, ...asked]) expect(set.has(ordinal)).toBe(added.includes(ordinal));
      },
    ),
  );
});

test('a selection tells inside, above and outside', () => {
  const at = (text: string): TreePath | undefined => {
    let path: TreePath | undefined;
    for (const part of text.split('/').filter((piece) => piece !== ''))
      path = { parent: path, name: utf8(part) };
    return path;
  };
  const selection = new PullSelection([[utf8('a'), utf8('b')], [utf8('c')]]);
  const positions = ['', 'a', 'a/b', 'a/b/x/y', 'a/c', 'a/bb', 'c', 'c/d', 'd', 'd/a/b'].map((text) =>
    selection.positionOf(at(text)),
  );
  expect(positions).toEqual([
    ...['above', 'above', 'inside', 'inside', 'outside', 'outside', 'inside', 'inside', 'outside', 'outside'],
  ] as never);
  expect(new PullSelection([]).positionOf(at('a/b'))).toBe('inside');
});

test('names are shown safely and paths keep their bytes', () => {
  expect(formatName(utf8('plain ü 💾'))).toBe('plain ü 💾');
  expect(formatName(utf8('\u001b[2J\n\u202egpj'))).toBe('\\u001b[2J\\u000a\\u202egpj');
  expect(formatName(Uint8Array.of(0x61, 0xff, 0x1b, 0x62))).toBe('a\\xff\\x1bb');
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 20 }), (raw) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: their absence is what is tested
      expect(formatName(raw)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
    }),
  );
  const path = { parent: { parent: undefined, name: Uint8Array.of(0xff) }, name: utf8('b') };
  expect([...pathBytes(path)]).toEqual([0xff, 0x2f, 0x62]);
  expect(pathNames(path)).toHaveLength(2);
  expect([...pathBytes(undefined)]).toEqual([]);
});
