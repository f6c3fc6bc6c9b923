import { describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import fc from 'fast-check';
import {
  buildDirectory,
  buildModel,
  collect,
  fileEntry,
  MemoryNodes,
  noise,
  readModel,
  type TreeModel,
  utf8,
} from '../../test/tree-fixture.ts';
import {
  CHILDREN_MAX,
  CHILDREN_MIN,
  compareNames,
  DIRECTORY_CONTENT_TYPE,
  DIRECTORY_INDEX_CONTENT_TYPE,
  type DirectoryEntry,
  FILE_INDEX_CONTENT_TYPE,
  findNameFault,
  TreeFormatError,
  type TreeNode,
} from '../format/tree-format.ts';
import { parseTreeNode } from '../format/tree-node.ts';
import {
  buildFile,
  buildSmallFile,
  DirectoryBuilder,
  FileBuilder,
  FileIndexBuilder,
  isHashBoundary,
  isNameBoundary,
} from './builders.ts';

const name = fc
  .oneof(
    fc.uint8Array({ minLength: 1, maxLength: 12 }),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }).map(utf8),
    fc.constantFrom('a', 'A', 'é', 'e\u0301', '...', ' ', '\n', 'a\\b', 'CON', '-rf', '~').map(utf8),
    fc.integer({ min: 1, max: 255 }).map((length) => utf8('x'.repeat(length))),
  )
  .filter((bytes) => findNameFault(bytes) === undefined);

const { tree } = fc.letrec<{ tree: TreeModel; file: TreeModel; link: TreeModel; folder: TreeModel }>(
  (tie) => ({
    file: fc.record({
      kind: fc.constant('file' as const),
      content: fc.uint8Array({ maxLength: 40 }),
      isExecutable: fc.boolean(),
      mtimeNs: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined }),
    }),
    link: fc.record({
      kind: fc.constant('symlink' as const),
      target: fc.uint8Array({ minLength: 1, maxLength: 30 }).map((bytes) => bytes.map((byte) => byte || 1)),
    }),
    folder: fc
      .uniqueArray(fc.tuple(name, tie('tree')), {
        maxLength: 6,
        selector: ([own]) => Buffer.from(own).toString('hex'),
      })
      .map((children) => ({ kind: 'directory' as const, children })),
    tree: fc.oneof({ depthSize: 'small', maxDepth: 7 }, tie('file'), tie('link'), tie('folder')),
  }),
);

function inOrder(model: TreeModel): TreeModel {
  if (model.kind !== 'directory') return model;
  const children = model.children.map(([own, child]) => [own, inOrder(child)] as const);
  return { kind: 'directory', children: children.toSorted(([a], [b]) => compareNames(a, b)) };
}

function shuffled(model: TreeModel, rank: (name: Uint8Array) => number): TreeModel {
  if (model.kind !== 'directory') return model;
  const children = model.children.map(([own, child]) => [own, shuffled(child, rank)] as const);
  return { kind: 'directory', children: children.toSorted(([a], [b]) => rank(a) - rank(b)) };
}

function pagesOf(nodes: MemoryNodes): number[] {
  return nodes.emitted
    .map((hash) => nodes.nodes.get(hash))
    .filter((node) => node?.contentType === DIRECTORY_CONTENT_TYPE)
    .map((node) => node?.refs.length ?? 0);
}

const numbered = (
  count: number,
  more: (index: number) => Partial<DirectoryEntry> = () => ({}),
): DirectoryEntry[] =>
  Array.from({ length: count }, (_, index) =>
    fileEntry(`entry-${String(index).padStart(7, '0')}`, more(index)),
  );

describe('whole trees', () => {
  test('come back as they were, whatever order they were listed in', async () => {
    await fc.assert(
      fc.asyncProperty(tree, fc.nat(), async (model, seed) => {
        const nodes = new MemoryNodes();
        const root = await buildModel(nodes, model);
        const item = await nodes.open().readItem(root.hash);
        expect(item).toMatchObject(root);
        const isFile = model.kind === 'file';
        const asEntry = isFile ? { ...item, isExecutable: model.isExecutable, mtimeNs: model.mtimeNs } : item;
        expect(await readModel(nodes.open(), asEntry)).toEqual(inOrder(model));
        const again = await buildModel(
          new MemoryNodes(),
          shuffled(model, (own) => Bun.hash.xxHash32(own, seed)),
        );
        expect(again).toEqual(root);
      }),
      { numRuns: 300 },
    );
  });

  test('deep ones too', async () => {
    let model: TreeModel = { kind: 'file', content: utf8('deep'), isExecutable: true, mtimeNs: undefined };
    for (let depth = 0; depth < 300; depth += 1)
      model = { kind: 'directory', children: [[utf8('d'), model]] };
    const nodes = new MemoryNodes();
    const root = await buildModel(nodes, model);
    expect(root).toMatchObject({ bytes: 4, entryCount: 300 });
    const names = new Array(300).fill(utf8('d'));
    const item = await nodes.open().resolvePath(root.hash, names);
    expect(item).toMatchObject({ kind: 'file', bytes: 4, isExecutable: true });
  });

  test('every node is emitted after its children, and is what its hash says', async () => {
    const nodes = new MemoryNodes();
    const seen = new Set<string>();
    const sink = {
      ...nodes,
      emit(node: TreeNode) {
        const own = node.contentType === DIRECTORY_INDEX_CONTENT_TYPE || node.refs.length === 1;
        if (own) expect(node.refs.filter((ref) => !seen.has(ref))).toEqual([]);
        seen.add(node.hash);
        expect(new MemoryNodes().add(node)).toBe(node.hash);
      },
    };
    const wide = await buildDirectory(sink, numbered(1000));
    await buildDirectory(sink, [fileEntry('sub', { kind: 'directory', ...wide })]);
    expect(seen.size).toBeGreaterThan(5);
  });
});

describe('wide directories', () => {
  test('pages keep their bounds and end only at boundaries', async () => {
    const nodes = new MemoryNodes();
    const root = await buildDirectory(nodes, numbered(10_000));
    const pages = pagesOf(nodes);
    for (const size of pages) expect(size).toBeLessThanOrEqual(CHILDREN_MAX);
    for (const size of pages.slice(0, -1)) expect(size).toBeGreaterThanOrEqual(CHILDREN_MIN);
    expect(pages.length).toBeLessThan(110);
    expect(pages.some((size) => size < CHILDREN_MAX)).toBe(true);
    for (const hash of nodes.emitted) {
      const node = parseTreeNode(await nodes.readNode(hash));
      if (node.type !== 'directory' || node.entries.length === CHILDREN_MAX) continue;
      const last = node.entries.at(-1)?.name as Uint8Array;
      expect(isNameBoundary(0, last) || compareNames(last, utf8('entry-0009999')) === 0).toBe(true);
    }
    expect(root.entryCount).toBe(10_000);
  });

  test('of 0, 1, 255, 256, 257 and of 30,000 entries come back', async () => {
    for (const count of [0, 1, 31, 32, 33, 255, 256, 257, 600, 30_000]) {
      const nodes = new MemoryNodes();
      const entries = numbered(count, (index) => ({ bytes: index }));
      const root = await buildDirectory(nodes, entries);
      expect(root).toMatchObject({
        entryCount: count,
        bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
      });
      let index = 0;
      for await (const entry of nodes.open().readDirectory(root)) {
        expect(compareNames(entry.name, (entries[index] as DirectoryEntry).name)).toBe(0);
        index += 1;
      }
      expect(index).toBe(count);
    }
  }, 300_000);

  test('that fit one page exactly are that page alone', async () => {
    const nodes = new MemoryNodes();
    const root = await buildDirectory(nodes, numbered(CHILDREN_MAX));
    // Some page may end earlier; then there is an index above.
    const pages = pagesOf(nodes);
    expect(nodes.emitted.length).toBe(pages.length === 1 ? 1 : pages.length + 1);
    const names = numbered(5000).filter(({ name: own }) => !isNameBoundary(0, own));
    const full = new MemoryNodes();
    const { hash } = await buildDirectory(full, names.slice(0, CHILDREN_MAX));
    expect(full.emitted).toEqual([hash]);
    expect(root.entryCount).toBe(CHILDREN_MAX);
  });

  test('another entry among 10,000 changes few pages', async () => {
    const before = new MemoryNodes();
    const entries = numbered(10_000);
    await buildDirectory(before, entries);
    for (const extra of ['entry-0000000x', 'entry-0004711x', 'entry-0009999x', 'a']) {
      const after = new MemoryNodes();
      const changed = [...entries, fileEntry(extra)].toSorted((a, b) => compareNames(a.name, b.name));
      await buildDirectory(after, changed);
      const fresh = [...after.nodes.keys()].filter((hash) => !before.nodes.has(hash));
      // Typically one page and the index; a new boundary moves a few more until the old ones fit again.
      expect(fresh.length).toBeGreaterThanOrEqual(2);
      expect(fresh.length).toBeLessThanOrEqual(8);
    }
  });

  test('other content under a name moves no boundary', async () => {
    const sizes = async (salt: string): Promise<number[]> => {
      const nodes = new MemoryNodes();
      await buildDirectory(
        nodes,
        numbered(5000, (index) => ({ hash: fileEntry(`${salt}${index}`).hash })),
      );
      return pagesOf(nodes);
    };
    expect(await sizes('one')).toEqual(await sizes('other'));
  });

  test('entries out of order are refused, on a page and across pages', async () => {
    const builder = new DirectoryBuilder(new MemoryNodes());
    for (const entry of numbered(3000)) await builder.add(entry);
    expect(() => builder.add(fileEntry('entry-0000001'))).toThrow(TreeFormatError);
    expect(() => builder.add(fileEntry('entry-0002999'))).toThrow('in the order of their names');
  });

  test('a slow sink holds the builder back, and memory is bounded by pages', async () => {
    let waiting = 0;
    let emitted = 0;
    const nodes = new MemoryNodes();
    const sink = {
      digest: nodes.digest,
      async emit(node: TreeNode) {
        waiting += 1;
        expect(waiting).toBe(1);
        await new Promise((resolve) => setTimeout(resolve, 0));
        waiting -= 1;
        emitted += 1;
        nodes.emit(node);
      },
    };
    const builder = new DirectoryBuilder(sink);
    let added = 0;
    for (const entry of numbered(3000)) {
      await builder.add(entry);
      added += 1;
      expect(added - pagesOf(nodes).reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(CHILDREN_MAX);
    }
    await builder.finish();
    expect(emitted).toBeGreaterThan(10);
  });
});

describe('files', () => {
  test('of one chunk are the file itself, whoever builds them', async () => {
    for (const length of [0, 1, 1000, 300_000]) {
      const nodes = new MemoryNodes();
      const content = noise(3, length);
      const built = await buildFile(nodes, [content]);
      expect(built).toEqual(await buildSmallFile(new MemoryNodes(), content));
      expect(Buffer.from((await nodes.readNode(built.hash)).content).equals(content)).toBe(true);
      expect(nodes.nodes.size).toBe(1);
    }
  });

  test('WebCrypto gives the same nodes as a synchronous digest', async () => {
    const content = noise(5, 3 * MIB_BYTES);
    const nodes = new MemoryNodes();
    const built = await buildFile(nodes, [content]);
    expect(await buildFile({ emit: () => undefined }, [content])).toEqual(built);
    expect(await buildDirectory({ emit: () => undefined }, numbered(2000))).toEqual(
      await buildDirectory(nodes, numbered(2000)),
    );
  });

  test('of many chunks come back whole and in ranges', async () => {
    const content = noise(9, 9 * MIB_BYTES);
    const nodes = new MemoryNodes();
    const built = await buildFile(nodes, [content]);
    expect((await nodes.readNode(built.hash)).contentType).toBe(FILE_INDEX_CONTENT_TYPE);
    const reader = nodes.open();
    expect(Buffer.from(await collect(reader.readFile(built))).equals(content)).toBe(true);
    await fc.assert(
      fc.asyncProperty(fc.nat(10 * MIB_BYTES), fc.nat(3 * MIB_BYTES), async (start, length) => {
        const part = await collect(reader.readFile(built, { range: { start, end: start + length } }));
        expect(Buffer.from(part).equals(content.subarray(start, start + length))).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  test('with a long list of chunks have balanced indexes that change little', async () => {
    const chunks = Array.from({ length: 20_000 }, (_, index) => ({
      hash: fileEntry(`chunk ${index}`).hash,
      bytes: 1000 + (index % 7),
    }));
    const build = async (list: typeof chunks): Promise<{ nodes: MemoryNodes; level: number }> => {
      const nodes = new MemoryNodes();
      const builder = new FileIndexBuilder(nodes);
      for (const chunk of list) await builder.add(chunk);
      const { hash, bytes } = await builder.finish();
      expect(bytes).toBe(list.reduce((sum, chunk) => sum + chunk.bytes, 0));
      const root = parseTreeNode(await nodes.readNode(hash));
      return { nodes, level: root.type === 'file-index' ? root.level : 0 };
    };
    const { nodes: before, level } = await build(chunks);
    expect(level).toBe(3);
    const extra = { hash: fileEntry('extra').hash, bytes: 5 };
    const { nodes: after } = await build(chunks.toSpliced(7777, 0, extra));
    const fresh = [...after.nodes.keys()].filter((hash) => !before.nodes.has(hash));
    expect(fresh.length).toBeGreaterThanOrEqual(level);
    expect(fresh.length).toBeLessThanOrEqual(2 * level);
    for (const hash of before.emitted) {
      const node = parseTreeNode(await before.readNode(hash));
      if (node.type !== 'file-index') throw new Error('only indexes were built');
      if (node.children.length < CHILDREN_MIN) continue;
      const isLast = before.emitted.indexOf(hash) >= before.emitted.length - level;
      const ends =
        node.children.length === CHILDREN_MAX || isHashBoundary(node.children.at(-1)?.hash as string);
      expect(ends || isLast).toBe(true);
    }
  });

  test('with indexes that are full to the last have nothing above or beside them', async () => {
    const child = { hash: 'a'.repeat(64), bytes: 3 };
    expect(isHashBoundary(child.hash)).toBe(false);
    for (const [count, emitted] of [
      [CHILDREN_MAX, 1],
      [2 * CHILDREN_MAX, 3],
      [CHILDREN_MAX ** 2, CHILDREN_MAX + 1],
      [CHILDREN_MAX ** 2 + 1, CHILDREN_MAX + 4],
    ] as const) {
      const nodes = new MemoryNodes();
      const builder = new FileIndexBuilder(nodes);
      for (let index = 0; index < count; index += 1) await builder.add(child);
      const { hash, bytes } = await builder.finish();
      expect(bytes).toBe(3 * count);
      expect(nodes.emitted.length).toBe(emitted);
      expect(nodes.emitted.at(-1)).toBe(hash);
    }
  });

  test('one byte inserted into 64 MiB changes few chunks and one index per level', async () => {
    const data = noise(21, 64 * MIB_BYTES);
    const before = new MemoryNodes();
    await buildFile(before, [data]);
    const after = new MemoryNodes();
    await buildFile(after, [
      data.subarray(0, 30 * MIB_BYTES),
      Uint8Array.of(1),
      data.subarray(30 * MIB_BYTES),
    ]);
    const fresh = [...after.nodes].filter(([hash]) => !before.nodes.has(hash)).map(([, node]) => node);
    const indexes = fresh.filter((node) => node.contentType === FILE_INDEX_CONTENT_TYPE);
    expect(indexes.length).toBeLessThanOrEqual(2);
    expect(fresh.length - indexes.length).toBeLessThanOrEqual(4);
  }, 300_000);

  test('an index needs chunks', async () => {
    await expect(new FileIndexBuilder(new MemoryNodes()).finish()).rejects.toThrow(TreeFormatError);
    const empty = new MemoryNodes();
    const { hash, bytes } = await new FileBuilder(empty).finish();
    expect(bytes).toBe(0);
    expect((await empty.readNode(hash)).content.length).toBe(0);
  });
});
