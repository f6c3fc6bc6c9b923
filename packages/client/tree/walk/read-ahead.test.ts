/** A walk reads ahead: many directories with one request, in the order of the walk, and no more than there is room for. */
import { describe, expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import fc from 'fast-check';
import { rejection } from '../../test/fake-space-fixture.ts';
import { buildDirectory, fileEntry, MemoryNodes } from '../../test/tree-fixture.ts';
import { encodeDirectory } from '../format/directory-node.ts';
import { type NodeParts, TreeFormatError, type TreeTotals } from '../format/tree-format.ts';
import type { NodeSource } from '../read/node-source.ts';
import { formatPath } from './tree-path.ts';
import { walkTree } from './walk-tree.ts';

type Built = { readonly hash: Hash } & TreeTotals;

/** All that one turn of the event loop asks for is one request. Each later turn gives one of its nodes. */
class BatchingSource implements NodeSource {
  readonly nodesAtOnce = 1024;
  requestCount = 0;
  readonly #nodes: MemoryNodes;
  #asked: (() => void)[] = [];
  #comingCount = 0;

  constructor(nodes: MemoryNodes) {
    this.#nodes = nodes;
  }

  readNode(hash: Hash): Promise<NodeParts> {
    if (this.#asked.length === 0) {
      this.requestCount += 1;
      setImmediate(() => this.#answer(this.#asked.splice(0)));
    }
    return new Promise((resolve, reject) => {
      this.#asked.push(() => this.#nodes.readNode(hash).then(resolve, reject));
    });
  }

  #answer(nodes: (() => void)[]): void {
    this.#comingCount += nodes.length;
    const answerNext = (): void => {
      const next = nodes.shift();
      if (next === undefined) return;
      this.#comingCount -= 1;
      next();
      setImmediate(answerNext);
    };
    answerNext();
  }

  /** Resolves when nothing was asked for during two turns. */
  async settled(): Promise<void> {
    for (let quiet = 0, before = -1; quiet < 2; before = this.requestCount) {
      const isQuiet = this.requestCount === before && this.#asked.length + this.#comingCount === 0;
      quiet = isQuiet ? quiet + 1 : 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

/** `widths[0]` directories in the root, `widths[1]` in each of them, and so on; each has one file too, no two alike. */
async function buildLevels(nodes: MemoryNodes, widths: readonly number[], name = ''): Promise<Built> {
  const [width = 0, ...below] = widths;
  const entries = [fileEntry(`a${name}`)];
  for (let index = 0; index < width; index += 1) {
    const built = await buildLevels(nodes, below, `${name}-${index}`);
    entries.push(fileEntry(`d${String(index).padStart(6, '0')}`, { kind: 'directory', ...built }));
  }
  return buildDirectory(nodes, entries);
}

describe('a walk where many nodes come with one request', () => {
  test('takes one request for each level of a tree of small directories, and reads each once', async () => {
    const nodes = new MemoryNodes();
    const root = await buildLevels(nodes, [12, 12, 12]);
    const source = new BatchingSource(nodes);
    for await (const _ of walkTree(source, root));
    expect(source.requestCount).toBeLessThanOrEqual(4);
    expect(nodes.reads.toSorted()).toEqual(nodes.emitted.toSorted());
  });

  test('goes into pages of wide directories, in dozens of requests', async () => {
    const nodes = new MemoryNodes();
    const root = await buildLevels(nodes, [12_000]);
    const source = new BatchingSource(nodes);
    let entries = 0;
    for await (const step of walkTree(source, root)) if (step.type === 'entry') entries += 1;
    expect(entries).toBe(root.entryCount);
    expect(source.requestCount).toBeLessThan(100);
    expect(new Set(nodes.reads).size).toBe(nodes.reads.length);
  });

  test('holds no more than it has room for, and what the walk comes to first', async () => {
    const nodes = new MemoryNodes();
    const root = await buildLevels(nodes, [10_000]);
    const source = new BatchingSource(nodes);
    const walk = walkTree(source, root);
    await walk.next();
    await source.settled();
    // 6 MiB of at least 768 bytes each.
    expect(nodes.reads.length).toBeLessThan(8_192);
    const readAtFirst = new Set(nodes.reads);
    const before = source.requestCount;
    let position = 0;
    for await (const step of walk) {
      if (step.type !== 'entry' || !step.isEntered) continue;
      expect(readAtFirst.has(step.entry.hash)).toBe(true);
      position += 1;
      if (position === 256) break;
    }
    expect(position).toBe(256);
    await source.settled();
    // The walk has ended: nothing is asked for any more.
    expect(source.requestCount).toBeLessThanOrEqual(before + 1);
  });

  test('asks for nothing more once it has ended', async () => {
    const nodes = new MemoryNodes();
    const root = await buildLevels(nodes, [3, 3, 3]);
    const source = new BatchingSource(nodes);
    const walk = walkTree(source, root);
    await walk.next();
    await walk.return();
    await source.settled();
    // The root, and what was on its way when the walk ended.
    expect(nodes.reads).toHaveLength(4);
  });

  test('finds again what it forgot because too much was known', async () => {
    const nodes = new MemoryNodes();
    const leaf = await buildLevels(nodes, []);
    const leaves = Array.from({ length: 250 }, (_, i) =>
      fileEntry(`d${String(i).padStart(3, '0')}`, { kind: 'directory', ...leaf }),
    );
    let root = leaf;
    for (let level = 0; level < 100; level += 1) {
      root = await buildDirectory(nodes, [fileEntry('a', { kind: 'directory', ...root }), ...leaves]);
    }
    const source = new BatchingSource(nodes);
    let entries = 0;
    for await (const step of walkTree(source, root)) {
      if (step.type === 'entry') expect(step.ordinal).toBe(entries++);
    }
    expect(entries).toBe(root.entryCount);
    // Each of them as often as it stands in the tree, and the nodes of the 100 others.
    const placed = 100 * leaves.length + 1;
    expect(nodes.reads.filter((hash) => hash === leaf.hash)).toHaveLength(placed);
    expect(nodes.reads).toHaveLength(placed + nodes.emitted.length - 1);
  });

  test('meets any tree as one that asks for each node by itself does', async () => {
    const widths = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(widths, fc.func(fc.boolean()), async (shape, choose) => {
        const nodes = new MemoryNodes();
        const root = await buildLevels(nodes, shape);
        const list = async (source: NodeSource): Promise<string[]> => {
          const steps: string[] = [];
          const enter = (path: Parameters<typeof formatPath>[0]): boolean => choose(formatPath(path));
          for await (const step of walkTree(source, root, { enter })) {
            const place = step.type === 'entry' ? `${step.ordinal} ${step.isEntered}` : '';
            if (step.type === 'entry' && step.isEntered) expect(enter(step.path)).toBe(true);
            steps.push(`${step.type} ${formatPath(step.path)} ${place}`);
          }
          return steps;
        };
        expect(await list(new BatchingSource(nodes))).toEqual(await list(nodes));
      }),
      { numRuns: 40 },
    );
  });

  test('a directory that has more below it than its parent says ends the walk where it stands', async () => {
    const nodes = new MemoryNodes();
    const real = await buildLevels(nodes, [3, 3]);
    const honest = await buildLevels(nodes, [2]);
    const lie = { ...real, entryCount: 1 };
    const hash = nodes.add(
      encodeDirectory([
        fileEntry('a', { kind: 'directory', ...honest }),
        fileEntry('b', { kind: 'directory', ...lie }),
        fileEntry('c', { kind: 'directory', ...honest }),
      ]),
    );
    const entryCount = 3 + 2 * honest.entryCount + 1;
    const paths: string[] = [];
    const error = await rejection(
      (async () => {
        const root = { hash, bytes: 0, entryCount };
        for await (const step of walkTree(new BatchingSource(nodes), root)) {
          if (step.type === 'entry') paths.push(formatPath(step.path));
        }
      })(),
    );
    expect(String(error)).toContain('the node above says 1 entry');
    expect((error as Error).cause ?? error).toBeInstanceOf(TreeFormatError);
    expect(paths.at(-1)).toBe('b');
  });

  test('what `enter` throws is thrown where the walk comes to the directory', async () => {
    const nodes = new MemoryNodes();
    const root = await buildLevels(nodes, [3, 2]);
    const enter = (path: Parameters<typeof formatPath>[0]): boolean => {
      if (formatPath(path) === 'd000001') throw new Error('no look at that');
      return true;
    };
    const paths: string[] = [];
    const error = await rejection(
      (async () => {
        for await (const step of walkTree(new BatchingSource(nodes), root, { enter })) {
          if (step.type === 'entry') paths.push(formatPath(step.path));
        }
      })(),
    );
    expect(String(error)).toContain('no look at that');
    expect(paths.at(-1)).toBe('d000000/d000001/a-0-1');
  });
});
