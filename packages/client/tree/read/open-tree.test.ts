import { heapStats } from 'bun:jsc';
import { describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import fc from 'fast-check';
import { FakeSpace } from '../../test/fake-space-fixture.ts';
import { buildDirectory, collect, fileEntry, MemoryNodes, noise, utf8 } from '../../test/tree-fixture.ts';
import { buildFile, buildSymlink } from '../build/builders.ts';
import { encodeDirectory, encodeDirectoryIndex } from '../format/directory-node.ts';
import {
  compareNames,
  type DirectoryEntry,
  type DirectoryIndex,
  type FileIndex,
  TreeFormatError,
} from '../format/tree-format.ts';
import {
  encodeChunk,
  encodeFile,
  encodeFileIndex,
  encodeSymlink,
  parseTreeNode,
} from '../format/tree-node.ts';
import { Kept } from '../jobs/kept.ts';
import { createNodeSource, openTree, TreePathError } from './open-tree.ts';

async function rejection(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => new Error('this should have been rejected'),
    (error) => error as Error,
  );
}

async function listNames(nodes: MemoryNodes, directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(nodes.open().readDirectory(directory));
  return entries.map(({ name }) => new TextDecoder().decode(name));
}

describe('finding', () => {
  const numbered = Array.from({ length: 9000 }, (_, index) =>
    fileEntry(String(index * 2).padStart(6, '0'), { bytes: index }),
  );

  test('one name reads one page and the indexes above it', async () => {
    const nodes = new MemoryNodes();
    const root = await buildDirectory(nodes, numbered);
    const tree = nodes.open();
    await fc.assert(
      fc.asyncProperty(fc.nat(18_010), async (number) => {
        nodes.reads.length = 0;
        const found = await tree.findEntry(root, utf8(String(number).padStart(6, '0')));
        expect(found?.bytes).toBe(number % 2 === 0 && number < 18_000 ? number / 2 : undefined);
        expect(nodes.reads.length).toBeLessThanOrEqual(3);
      }),
      { numRuns: 300 },
    );
    expect(await tree.findEntry(root, utf8('!'))).toBeUndefined();
    expect(await tree.findEntry(root, utf8('x'))).toBeUndefined();
  });

  test('who keeps parsed folders reads each once, and every file again', async () => {
    const nodes = new MemoryNodes();
    const file = await buildFile(nodes, [utf8('text')]);
    const root = await buildDirectory(nodes, [...numbered.slice(0, 300), fileEntry('z', file)]);
    const tree = openTree({
      parsedFolders: new Kept(MIB_BYTES),
      readNode: (hash) => nodes.readNode(hash),
    });
    for (let round = 0; round < 2; round += 1)
      await collect(tree.readFile(await tree.resolvePath(root.hash, [utf8('z')])));
    expect(nodes.reads.filter((hash) => hash === file.hash)).toHaveLength(2);
    expect(new Set(nodes.reads).size).toBe(nodes.reads.length - 1);
  });

  test('paths lead through directories, never through links or files', async () => {
    const nodes = new MemoryNodes();
    const link = await buildSymlink(nodes, utf8('sub'));
    const odd = Uint8Array.of(0xff, 0x2e);
    const sub = await buildDirectory(nodes, [fileEntry(odd, { bytes: 3 })]);
    const root = await buildDirectory(nodes, [
      fileEntry('file'),
      fileEntry('link', { kind: 'symlink', ...link }),
      fileEntry('sub', { kind: 'directory', ...sub }),
    ]);
    const tree = nodes.open();
    expect(await tree.resolvePath(root.hash, [])).toMatchObject({
      kind: 'directory',
      hash: root.hash,
      entryCount: 4,
    });
    expect(await tree.resolvePath(root.hash, [utf8('sub')])).toMatchObject({ kind: 'directory', ...sub });
    expect(await tree.resolvePath(root.hash, [utf8('sub'), odd])).toMatchObject({ kind: 'file', bytes: 3 });
    expect(await tree.resolvePath(root.hash, [utf8('link')])).toMatchObject({ kind: 'symlink', bytes: 3 });
    const faults: [string[], string, number][] = [
      [['none'], 'not-found', 0],
      [['sub', 'none'], 'not-found', 1],
      [['link', 'x'], 'not-a-directory', 1],
      [['file', 'x', 'y'], 'not-a-directory', 1],
      [['sub', '..'], 'not-found', 1],
      [['.'], 'not-found', 0],
      [[''], 'not-found', 0],
      [['sub/x'], 'not-found', 0],
    ];
    for (const [names, reason, position] of faults) {
      const error = await rejection(tree.resolvePath(root.hash, names.map(utf8)));
      expect(error).toBeInstanceOf(TreePathError);
      expect(error).toMatchObject({ reason, position });
    }
  });

  test('items of every kind, and what is none', async () => {
    const nodes = new MemoryNodes();
    const tree = nodes.open();
    const file = await buildFile(nodes, [noise(1, 3 * MIB_BYTES)]);
    expect(await tree.readItem(file.hash)).toMatchObject({
      kind: 'file',
      bytes: 3 * MIB_BYTES,
      isExecutable: false,
    });
    const wide = await buildDirectory(nodes, numbered);
    expect(await tree.readItem(wide.hash)).toMatchObject({ kind: 'directory', ...wide });
    const chunk = nodes.add(encodeChunk(utf8('x')));
    expect(await rejection(tree.readItem(chunk))).toMatchObject({ name: 'TreeFormatError', hash: chunk });
    const other = nodes.add({ contentType: 'text/plain', refs: [], content: utf8('x') });
    expect(await rejection(tree.readItem(other))).toBeInstanceOf(TreeFormatError);
  });
});

describe('reading', () => {
  test('a piece is held no longer than its reader uses it', async () => {
    const nodes = new MemoryNodes();
    const file = await buildFile(nodes, [noise(4, 10 * MIB_BYTES)]);
    const countPieces = (): number => {
      Bun.gc(true);
      return heapStats().objectTypeCounts.Uint8Array ?? 0;
    };
    const readers = Array.from({ length: 100 }, () => nodes.open().readFile(file, { readAheadNodes: 0 }));
    const before = countPieces();
    const lengths = await Promise.all(
      readers.map(async (reader) => (await reader.next()).value?.length ?? 0),
    );
    expect(Math.min(...lengths)).toBeGreaterThan(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(countPieces() - before).toBeLessThan(readers.length / 2);
    for (const reader of readers) await reader.return();
  });

  test('a range touches only the nodes that hold it', async () => {
    const nodes = new MemoryNodes();
    const content = noise(2, 20 * MIB_BYTES);
    const file = await buildFile(nodes, [content]);
    nodes.reads.length = 0;
    const range = { start: 10 * MIB_BYTES, end: 10 * MIB_BYTES + 10 };
    const part = await collect(nodes.open().readFile(file, { range }));
    expect(Buffer.from(part).equals(content.subarray(range.start, range.end))).toBe(true);
    expect(nodes.reads.length).toBeLessThanOrEqual(3);
    const beyond = { start: 30 * MIB_BYTES, end: 31 * MIB_BYTES };
    expect((await collect(nodes.open().readFile(file, { range: beyond }))).length).toBe(0);
    for (const wrong of [
      { start: -1, end: 5 },
      { start: 5, end: 4 },
      { start: 0.5, end: 4 },
      { start: Number.NaN, end: 4 },
    ]) {
      expect(await rejection(collect(nodes.open().readFile(file, { range: wrong })))).toBeInstanceOf(
        RangeError,
      );
    }
  });

  test('nodes are asked for ahead, as many as told, and come in order', async () => {
    const nodes = new MemoryNodes();
    const content = noise(4, 12 * MIB_BYTES);
    const file = await buildFile(nodes, [content]);
    for (const readAheadNodes of [0, 1, 5]) {
      let running = 0;
      let most = 0;
      const tree = openTree({
        async readNode(hash) {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setTimeout(resolve, Number.parseInt(hash.slice(0, 1), 16) % 5));
          running -= 1;
          return nodes.readNode(hash);
        },
      });
      const bytes = await collect(tree.readFile(file, { readAheadNodes }));
      expect(Buffer.from(bytes).equals(content)).toBe(true);
      expect(most).toBe(readAheadNodes + 1);
    }
  });

  test('a node that fails ahead of its turn fails in its turn', async () => {
    const nodes = new MemoryNodes();
    const file = await buildFile(nodes, [noise(4, 8 * MIB_BYTES)]);
    const index = parseTreeNode(await nodes.readNode(file.hash)) as unknown as FileIndex;
    nodes.nodes.delete(index.children[3]?.hash as string);
    let bytes = 0;
    const reading = (async () => {
      for await (const piece of nodes.open().readFile(file)) bytes += piece.length;
    })();
    expect((await rejection(reading)).message).toContain('there is no node');
    expect(bytes).toBe(index.children.slice(0, 3).reduce((sum, child) => sum + child.bytes, 0));
  });

  test('stopping early asks for nothing more, and signals reach the source', async () => {
    const nodes = new MemoryNodes();
    const file = await buildFile(nodes, [noise(4, 12 * MIB_BYTES)]);
    nodes.reads.length = 0;
    for await (const _ of nodes.open().readFile(file, { readAheadNodes: 1 })) break;
    expect(nodes.reads.length).toBe(3);
    const stop = new AbortController();
    const tree = openTree({
      async readNode(hash, options) {
        options?.signal?.throwIfAborted();
        return nodes.readNode(hash);
      },
    });
    stop.abort(new Error('enough'));
    expect((await rejection(collect(tree.readFile(file, { signal: stop.signal })))).message).toBe('enough');
    expect((await rejection(tree.readItem(file.hash, { signal: stop.signal }))).message).toBe('enough');
  });

  test('over a Space every node is verified', async () => {
    const nodes = new MemoryNodes();
    const content = noise(6, 3 * MIB_BYTES);
    const file = await buildFile(nodes, [content]);
    const space = new FakeSpace();
    const client = space.client();
    for (const hash of nodes.emitted) await client.putNode(await nodes.readNode(hash));
    const tree = openTree(createNodeSource(client));
    expect(Buffer.from(await collect(tree.readFile(file))).equals(content)).toBe(true);
    const [victim = ''] = nodes.emitted;
    const bytes = (space.nodes.get(victim) as Uint8Array).slice();
    bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
    space.nodes.set(victim, bytes);
    expect(await rejection(collect(tree.readFile(file)))).toMatchObject({ code: 'VERIFICATION_FAILED' });
  });
});

describe('trees that contradict themselves', () => {
  /** Two pages of two entries each. */
  function pages(): { nodes: MemoryNodes; index: DirectoryIndex } {
    const nodes = new MemoryNodes();
    const page = (names: string[]): DirectoryIndex['children'][number] => {
      const entries = names.map((name) => fileEntry(name, { bytes: 10 }));
      const hash = nodes.add(encodeDirectory(entries));
      return {
        hash,
        firstName: utf8(names[0] as string),
        bytes: 10 * names.length,
        entryCount: names.length,
      };
    };
    return { nodes, index: { level: 1, children: [page(['a', 'b']), page(['m', 'n'])] } };
  }
  type Child = DirectoryIndex['children'][number];

  async function directoryFault(
    change: (first: Child, second: Child, nodes: MemoryNodes) => readonly Child[],
    level = 1,
  ): Promise<string> {
    const { nodes, index } = pages();
    const [first, second] = index.children as [Child, Child];
    const root = nodes.add(encodeDirectoryIndex({ level, children: change(first, second, nodes) }));
    const error = await rejection(listNames(nodes, root));
    if (error instanceof TreeFormatError) expect(error.hash).toMatch(/^[0-9a-f]{64}$/);
    return error.message;
  }

  test('wide directories', async () => {
    expect(await directoryFault((a, b) => [a, b])).toContain('should have been rejected');
    expect(await directoryFault((a, b) => [{ ...a, bytes: 21 }, b])).toContain('says 2 entries and 21 bytes');
    expect(await directoryFault((a, b) => [{ ...a, entryCount: 3 }, b])).toContain('says 3 entries');
    expect(await directoryFault((a, b) => [{ ...a, firstName: utf8('A') }, b])).toContain('first name');
    expect(await directoryFault((a, b) => [a, { ...b, firstName: utf8('o') }])).toContain('first name');
    expect(await directoryFault((a, b) => [a, { ...a, firstName: utf8('b') }, b])).toContain('later page');
    expect(await directoryFault((a, b) => [a, b], 2)).toContain('level 1 here; this is level 0');
    expect(
      await directoryFault((a, b, nodes) => [{ ...a, hash: nodes.add(encodeFile(utf8('x'))) }, b]),
    ).toContain('this is a file');
    expect(
      await directoryFault((a, b, nodes) => [{ ...a, hash: nodes.add(encodeSymlink(utf8('x'))) }, b]),
    ).toContain('this is a symlink');
  });

  test('a page below an index below an index may not reach past the next one', async () => {
    const { nodes, index } = pages();
    const [first, second] = index.children as [Child, Child];
    const low = nodes.add(encodeDirectoryIndex({ level: 1, children: [first, second] }));
    const totals = { bytes: 40, entryCount: 4 };
    const late = nodes.add(encodeDirectory([fileEntry('n', { bytes: 1 })]));
    const lateIndex = nodes.add(
      encodeDirectoryIndex({
        level: 1,
        children: [{ hash: late, firstName: utf8('n'), bytes: 1, entryCount: 1 }],
      }),
    );
    const children = [
      { hash: low, firstName: utf8('a'), ...totals },
      { hash: lateIndex, firstName: utf8('n'), bytes: 1, entryCount: 1 },
    ];
    const root = nodes.add(encodeDirectoryIndex({ level: 2, children }));
    expect((await rejection(listNames(nodes, root))).message).toContain('later page');
    expect((await rejection(nodes.open().findEntry(root, utf8('m')))).message).toContain('later page');
  });

  async function fileFault(
    level: number,
    make: (nodes: MemoryNodes) => FileIndex['children'],
  ): Promise<string> {
    const nodes = new MemoryNodes();
    const root = nodes.add(encodeFileIndex({ level, children: make(nodes) }));
    return (await rejection(collect(nodes.open().readFile(root)))).message;
  }

  test('large files', async () => {
    const chunk = (nodes: MemoryNodes): string => nodes.add(encodeChunk(utf8('12345')));
    expect(await fileFault(1, (nodes) => [{ hash: chunk(nodes), bytes: 5 }])).toContain(
      'should have been rejected',
    );
    expect(await fileFault(1, (nodes) => [{ hash: chunk(nodes), bytes: 4 }])).toContain(
      'says 4 bytes; here are 5',
    );
    expect(await fileFault(2, (nodes) => [{ hash: chunk(nodes), bytes: 5 }])).toContain(
      'an index of level 1',
    );
    expect(
      await fileFault(1, (nodes) => [{ hash: nodes.add(encodeFile(utf8('12345'))), bytes: 5 }]),
    ).toContain('a chunk should be here');
    expect(await fileFault(1, (nodes) => [{ hash: nodes.add(encodeDirectory([])), bytes: 5 }])).toContain(
      'this is a directory',
    );
    const deeper = (nodes: MemoryNodes): string =>
      nodes.add(encodeFileIndex({ level: 1, children: [{ hash: chunk(nodes), bytes: 5 }] }));
    expect(await fileFault(1, (nodes) => [{ hash: deeper(nodes), bytes: 5 }])).toContain(
      'a chunk should be here',
    );
    expect(await fileFault(3, (nodes) => [{ hash: deeper(nodes), bytes: 5 }])).toContain(
      'an index of level 2',
    );
  });

  test('entries that say something else than their nodes', async () => {
    const nodes = new MemoryNodes();
    const tree = nodes.open();
    const file = nodes.add(encodeFile(utf8('12345')));
    const link = nodes.add(encodeSymlink(utf8('12345')));
    const folder = nodes.add(encodeDirectory([fileEntry('a')]));
    expect((await rejection(collect(tree.readFile({ hash: file, bytes: 6 })))).message).toContain(
      'says 6 bytes',
    );
    expect((await rejection(tree.readSymlink({ hash: link, bytes: 6 }))).message).toContain('says 6 bytes');
    expect((await rejection(tree.readSymlink(file))).message).toContain('this is a file');
    expect((await rejection(collect(tree.readFile(link)))).message).toContain('this is a symlink');
    expect((await rejection(collect(tree.readFile(nodes.add(encodeChunk(utf8('x'))))))).message).toContain(
      'a whole file',
    );
    const wrong: Pick<DirectoryEntry, 'hash' | 'bytes' | 'entryCount'> = {
      hash: folder,
      bytes: 0,
      entryCount: 2,
    };
    expect((await rejection(Array.fromAsync(tree.readDirectory(wrong)))).message).toContain('says 2 entries');
    expect((await rejection(tree.findEntry(wrong, utf8('a')))).message).toContain('says 2 entries');
    expect((await rejection(tree.findEntry(file, utf8('a')))).message).toContain(
      'a directory should be here',
    );
  });

  test('names come out sorted and once, whatever pages are put together', async () => {
    const letter = fc.constantFrom(...'abcdefgh');
    const page = fc.uniqueArray(letter, { minLength: 1, maxLength: 4 }).map((names) => names.toSorted());
    await fc.assert(
      fc.asyncProperty(fc.array(page, { minLength: 1, maxLength: 4 }), async (lists) => {
        const nodes = new MemoryNodes();
        const children = lists.map((names) => ({
          hash: nodes.add(encodeDirectory(names.map((name) => fileEntry(name)))),
          firstName: utf8(names[0] as string),
          bytes: 0,
          entryCount: names.length,
        }));
        const distinct = children.every((child, at) => {
          const before = children[at - 1];
          return before === undefined || compareNames(before.firstName, child.firstName) < 0;
        });
        fc.pre(distinct);
        const root = nodes.add(encodeDirectoryIndex({ level: 1, children }));
        const isGood = lists.flat().every((name, at, all) => at === 0 || (all[at - 1] as string) < name);
        const result = await listNames(nodes, root).catch((error: unknown) => error);
        if (isGood) expect(result).toEqual(lists.flat());
        else expect(result).toBeInstanceOf(TreeFormatError);
      }),
      { numRuns: 300 },
    );
  });
});
