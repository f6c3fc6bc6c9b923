import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { fileEntry, utf8 } from '../../test/tree-fixture.ts';
import { encodeDirectory, encodeDirectoryIndex, parseDirectory } from './directory-node.ts';
import {
  CHUNK_BYTES_MAX,
  CHUNK_CONTENT_TYPE,
  compareNames,
  DIRECTORY_CONTENT_TYPE,
  DIRECTORY_INDEX_CONTENT_TYPE,
  type DirectoryEntry,
  FILE_CONTENT_TYPE,
  FILE_INDEX_CONTENT_TYPE,
  findNameFault,
  NAME_BYTES_MAX,
  type NodeParts,
  SYMLINK_CONTENT_TYPE,
  SYMLINK_TARGET_BYTES_MAX,
  TREE_NODE_CONTENT_BYTES_MAX,
  TreeFormatError,
} from './tree-format.ts';
import {
  encodeChunk,
  encodeFile,
  encodeFileIndex,
  encodeSymlink,
  type ParsedNode,
  parseTreeNode,
} from './tree-node.ts';

const HASH = 'ab'.repeat(32);
const CONTENT_TYPES = [
  FILE_CONTENT_TYPE,
  FILE_INDEX_CONTENT_TYPE,
  CHUNK_CONTENT_TYPE,
  DIRECTORY_CONTENT_TYPE,
  DIRECTORY_INDEX_CONTENT_TYPE,
  SYMLINK_CONTENT_TYPE,
];

const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const name = fc
  .uint8Array({ minLength: 1, maxLength: 20 })
  .filter((bytes) => findNameFault(bytes) === undefined);
const amount = fc.oneof(fc.nat(1000), fc.nat(2 ** 31 - 1), fc.integer({ min: 0, max: 2 ** 44 }));
const mtimeNs = fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined });
const entry: fc.Arbitrary<DirectoryEntry> = fc
  .oneof(
    fc.record({ kind: fc.constant('file' as const), isExecutable: fc.boolean(), bytes: amount }),
    fc.record({
      kind: fc.constant('directory' as const),
      bytes: amount,
      entryCount: amount.map((count) => count + 1),
    }),
    fc.record({ kind: fc.constant('symlink' as const), bytes: fc.integer({ min: 1, max: 4096 }) }),
  )
  .chain((own) =>
    fc
      .record({ name, hash, mtimeNs })
      .map((rest) => ({ entryCount: 0, isExecutable: false, ...rest, ...own })),
  );
const sorted = <T>(
  items: fc.Arbitrary<T>,
  nameOf: (item: T) => Uint8Array,
  minLength = 0,
): fc.Arbitrary<T[]> =>
  fc
    .uniqueArray(items, {
      minLength,
      maxLength: 256,
      size: 'small',
      selector: (item) => Buffer.from(nameOf(item)).toString('hex'),
    })
    .map((list) => list.toSorted((a, b) => compareNames(nameOf(a), nameOf(b))));
const entries = sorted(entry, (item) => item.name);
const indexChild = fc.record({
  firstName: name,
  hash,
  bytes: amount,
  entryCount: amount.map((count) => count + 1),
});
const directoryIndex = fc.record({
  level: fc.integer({ min: 1, max: 12 }),
  children: sorted(indexChild, (child) => child.firstName, 1),
});
const fileIndex = fc.record({
  level: fc.integer({ min: 1, max: 12 }),
  children: fc.array(fc.record({ hash, bytes: fc.integer({ min: 1, max: CHUNK_BYTES_MAX }) }), {
    minLength: 1,
    maxLength: 256,
    size: 'small',
  }),
});
const node: fc.Arbitrary<NodeParts> = fc.oneof(
  entries.map(encodeDirectory),
  directoryIndex.map(encodeDirectoryIndex),
  fileIndex.map(encodeFileIndex),
  fc.uint8Array().map(encodeFile),
  fc.uint8Array({ minLength: 1 }).map(encodeChunk),
  fc.uint8Array({ minLength: 1 }).map((bytes) => encodeSymlink(bytes.map((byte) => byte || 1))),
);

function encodeParsed(parsed: ParsedNode): NodeParts {
  switch (parsed.type) {
    case 'file':
      return encodeFile(parsed.content);
    case 'chunk':
      return encodeChunk(parsed.content);
    case 'symlink':
      return encodeSymlink(parsed.target);
    case 'directory':
      return encodeDirectory(parsed.entries);
    case 'directory-index':
      return encodeDirectoryIndex(parsed);
    case 'file-index':
      return encodeFileIndex(parsed);
  }
}

/** The message of the TreeFormatError that `run` throws; `fine` when it throws nothing. */
function faultOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(TreeFormatError);
    return (error as Error).message;
  }
  return 'fine';
}

describe('round trip', () => {
  test('directories', () => {
    fc.assert(
      fc.property(entries, (list) => {
        expect(parseDirectory(encodeDirectory(list))).toEqual(list);
      }),
    );
  });

  test('directory indexes and file indexes', () => {
    fc.assert(
      fc.property(directoryIndex, fileIndex, (directories, file) => {
        expect(parseTreeNode(encodeDirectoryIndex(directories))).toEqual({
          type: 'directory-index',
          ...directories,
        });
        expect(parseTreeNode(encodeFileIndex(file))).toEqual({ type: 'file-index', ...file });
      }),
    );
  });

  test('every parser reads views into larger memory', () => {
    fc.assert(
      fc.property(node, (parts) => {
        const memory = new Uint8Array(parts.content.length + 7).fill(0xff);
        memory.set(parts.content, 3);
        const content = memory.subarray(3, 3 + parts.content.length);
        expect(parseTreeNode({ ...parts, content })).toEqual(parseTreeNode(parts));
      }),
    );
  });
});

describe('arbitrary bytes', () => {
  /** Either the one error, or a node that means exactly these bytes: nothing has two spellings. */
  function check(parts: NodeParts): void {
    let parsed: ParsedNode;
    try {
      parsed = parseTreeNode(parts);
    } catch (error) {
      expect(error).toBeInstanceOf(TreeFormatError);
      return;
    }
    const again = encodeParsed(parsed);
    expect(again.contentType).toBe(parts.contentType);
    expect(again.refs).toEqual(parts.refs);
    expect(Buffer.from(again.content).equals(parts.content)).toBe(true);
  }

  test('noise under every content type', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CONTENT_TYPES),
        fc.array(hash, { maxLength: 5 }),
        fc.uint8Array({ maxLength: 200 }),
        fc.boolean(),
        (contentType, refs, noise, isHeaded) => {
          const content = isHeaded ? Uint8Array.of(1, (noise[0] ?? 0) % 3, 0, 0, ...noise) : noise;
          check({ contentType, refs, content });
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('nodes with a byte changed, cut off, added, a ref lost or added, another type', () => {
    fc.assert(
      fc.property(node, fc.nat(), fc.integer({ min: 1, max: 255 }), fc.nat(5), (parts, at, change, how) => {
        const { content, refs } = parts;
        const position = at % (content.length || 1);
        if (how === 0) check({ ...parts, content: content.map((b, i) => (i === position ? b ^ change : b)) });
        if (how === 1) check({ ...parts, content: content.slice(0, position) });
        if (how === 2) check({ ...parts, content: Uint8Array.of(...content, change) });
        if (how === 3) check({ ...parts, refs: refs.slice(0, -1) });
        if (how === 4) check({ ...parts, refs: [...refs, HASH] });
        if (how === 5) check({ ...parts, contentType: CONTENT_TYPES[at % 6] as string });
      }),
      { numRuns: 3000 },
    );
  });
});

describe('what a directory refuses', () => {
  /** An encoded directory with the name `original` overwritten by bytes no encoder would write. */
  function withName(original: string, replacement: Uint8Array): NodeParts {
    const parts = encodeDirectory([fileEntry(original)]);
    const content = parts.content.slice();
    content.set(replacement, 8);
    return { ...parts, content };
  }

  const hostile: readonly (readonly [string, string])[] = [
    ['.', "'.'"],
    ['..', "'..'"],
    ['/', "'/'"],
    ['a/b', "'/'"],
    ['../x', "'/'"],
    ['/etc', "'/'"],
    ['a\0', 'NUL'],
    ['\0', 'NUL'],
  ];
  for (const [text, rule] of hostile) {
    test(`the name ${JSON.stringify(text)}`, () => {
      const bytes = utf8(text);
      expect(faultOf(() => parseDirectory(withName('x'.repeat(bytes.length), bytes)))).toContain(rule);
      expect(faultOf(() => encodeDirectory([fileEntry(text)]))).toContain(rule);
    });
  }

  test('an empty name, and one that is too long', () => {
    expect(faultOf(() => encodeDirectory([fileEntry('')]))).toContain('empty');
    const content = Uint8Array.of(1, 0, 0, 0, 1, 0, 0, 0, ...new Uint8Array(8));
    const empty = { contentType: DIRECTORY_CONTENT_TYPE, refs: [HASH], content };
    expect(faultOf(() => parseDirectory(empty))).toContain('empty');
    expect(faultOf(() => encodeDirectory([fileEntry('x'.repeat(NAME_BYTES_MAX))]))).toBe('fine');
    expect(faultOf(() => encodeDirectory([fileEntry('x'.repeat(NAME_BYTES_MAX + 1))]))).toContain('1025');
  });

  test('names that look dangerous elsewhere are names here', () => {
    for (const text of ['...', '.x', '..x', ' ', '~', 'C:', 'a\\b', '-rf', '\n', 'con']) {
      expect(faultOf(() => encodeDirectory([fileEntry(text)]))).toBe('fine');
    }
    expect(faultOf(() => encodeDirectory([fileEntry(Uint8Array.of(0xff, 0x80))]))).toBe('fine');
  });

  /** Two entries spliced by hand, so that the encoder's own check is not what refuses them. */
  function splice(first: string, second: string): NodeParts {
    const [a, b] = [encodeDirectory([fileEntry(first)]), encodeDirectory([fileEntry(second)])];
    const content = Uint8Array.of(...a.content, ...b.content.subarray(4));
    return { contentType: DIRECTORY_CONTENT_TYPE, refs: [...a.refs, ...b.refs], content };
  }

  test('names twice or out of order', () => {
    expect(faultOf(() => parseDirectory(splice('a', 'b')))).toBe('fine');
    expect(faultOf(() => parseDirectory(splice('a', 'a')))).toContain('twice');
    expect(faultOf(() => parseDirectory(splice('b', 'a')))).toContain('not sorted');
    expect(faultOf(() => parseDirectory(splice('ab', 'a')))).toContain('not sorted');
    expect(faultOf(() => encodeDirectory([fileEntry('b'), fileEntry('a')]))).toContain('not sorted');
  });

  test('order is that of unsigned bytes', () => {
    expect(compareNames(Uint8Array.of(0x7f), Uint8Array.of(0x80))).toBeLessThan(0);
    expect(compareNames(utf8('a'), utf8('a'))).toBe(0);
    expect(compareNames(utf8('a'), utf8('a.b'))).toBeLessThan(0);
  });

  test('unknown kinds and flags, flags of other kinds, versions, levels, reserved bytes', () => {
    const parts = encodeDirectory([fileEntry('name')]);
    const changed = (at: number, byte: number): string =>
      faultOf(() => parseDirectory({ ...parts, content: parts.content.with(at, byte) }));
    expect(changed(0, 2)).toContain('version 2');
    expect(changed(1, 1)).toContain('level 1');
    expect(changed(2, 1)).toContain('reserved');
    expect(changed(4, 0)).toContain('kind 0');
    expect(changed(4, 4)).toContain('kind 4');
    expect(changed(5, 4)).toContain('flags 0x4');
    expect(changed(5, 1)).toBe('fine');
    const link = encodeDirectory([fileEntry('name', { kind: 'symlink', bytes: 1 })]);
    expect(faultOf(() => parseDirectory({ ...link, content: link.content.with(5, 1) }))).toContain(
      'executable',
    );
  });

  test('amounts beyond 2^53 - 1, and sums beyond it', () => {
    const parts = encodeDirectory([fileEntry('n', { bytes: Number.MAX_SAFE_INTEGER })]);
    expect(parseDirectory(parts)[0]?.bytes).toBe(Number.MAX_SAFE_INTEGER);
    const over = parts.content.slice();
    new DataView(over.buffer).setBigUint64(over.length - 8, 2n ** 53n, true);
    expect(faultOf(() => parseDirectory({ ...parts, content: over }))).toContain('byte total is more');
    const two = [fileEntry('a', { bytes: Number.MAX_SAFE_INTEGER }), fileEntry('b', { bytes: 1 })];
    expect(faultOf(() => encodeDirectory(two))).toContain('add up');
  });

  test('links without a target, empty directories with bytes', () => {
    expect(faultOf(() => encodeDirectory([fileEntry('l', { kind: 'symlink', bytes: 0 })]))).toContain(
      'target',
    );
    expect(faultOf(() => encodeDirectory([fileEntry('d', { kind: 'directory', bytes: 1 })]))).toContain(
      'bytes below',
    );
    expect(faultOf(() => encodeDirectory([fileEntry('f', { entryCount: 1 })]))).toContain('entries below');
  });

  test('more than 256 entries', () => {
    const many = Array.from({ length: 257 }, (_, index) => fileEntry(String(1000 + index)));
    expect(faultOf(() => encodeDirectory(many.slice(1)))).toBe('fine');
    expect(faultOf(() => encodeDirectory(many))).toContain('257');
  });
});

describe('what indexes and leaves refuse', () => {
  const child = { hash: HASH, firstName: utf8('a'), bytes: 0, entryCount: 1 };

  test('indexes without children, at no level, with empty children', () => {
    expect(faultOf(() => encodeDirectoryIndex({ level: 1, children: [] }))).toContain('no children');
    expect(faultOf(() => encodeDirectoryIndex({ level: 0, children: [child] }))).toContain('level 0');
    expect(faultOf(() => encodeDirectoryIndex({ level: 13, children: [child] }))).toContain('level 13');
    expect(
      faultOf(() => encodeDirectoryIndex({ level: 1, children: [{ ...child, entryCount: 0 }] })),
    ).toContain('no entries');
    expect(faultOf(() => encodeDirectoryIndex({ level: 1, children: [child, child] }))).toContain('twice');
    expect(faultOf(() => encodeFileIndex({ level: 1, children: [] }))).toContain('no children');
    expect(faultOf(() => encodeFileIndex({ level: 1, children: [{ hash: HASH, bytes: 0 }] }))).toContain(
      'no bytes',
    );
    const large = { hash: HASH, bytes: CHUNK_BYTES_MAX + 1 };
    expect(faultOf(() => encodeFileIndex({ level: 1, children: [large] }))).toContain('4194305');
    expect(faultOf(() => encodeFileIndex({ level: 2, children: [large] }))).toBe('fine');
  });

  test('refs and content that do not agree in number', () => {
    const index = encodeFileIndex({ level: 1, children: [{ hash: HASH, bytes: 5 }] });
    expect(faultOf(() => parseTreeNode({ ...index, refs: [HASH, HASH] }))).toContain('inside a byte length');
    const two = encodeDirectory([fileEntry('a'), fileEntry('b')]);
    expect(faultOf(() => parseTreeNode({ ...two, refs: [HASH] }))).toContain('trail');
    expect(faultOf(() => parseTreeNode({ ...index, refs: [] }))).toContain('no children');
  });

  test('leaves with refs, empty chunks, large pieces, targets that are none', () => {
    for (const contentType of [FILE_CONTENT_TYPE, CHUNK_CONTENT_TYPE, SYMLINK_CONTENT_TYPE]) {
      expect(faultOf(() => parseTreeNode({ contentType, refs: [HASH], content: utf8('x') }))).toContain(
        'no refs',
      );
    }
    expect(faultOf(() => encodeChunk(new Uint8Array(0)))).toContain('empty');
    expect(faultOf(() => encodeFile(new Uint8Array(0)))).toBe('fine');
    expect(faultOf(() => encodeFile(new Uint8Array(TREE_NODE_CONTENT_BYTES_MAX)))).toBe('fine');
    expect(faultOf(() => encodeFile(new Uint8Array(CHUNK_BYTES_MAX + 1)))).toContain('4194305');
    expect(faultOf(() => encodeSymlink(utf8('')))).toContain('empty');
    expect(faultOf(() => encodeSymlink(utf8('a\0b')))).toContain('NUL');
    expect(faultOf(() => encodeSymlink(utf8('x'.repeat(SYMLINK_TARGET_BYTES_MAX))))).toBe('fine');
    expect(faultOf(() => encodeSymlink(utf8('x'.repeat(SYMLINK_TARGET_BYTES_MAX + 1))))).toContain('4097');
  });

  test('nodes of no tree type', () => {
    expect(
      faultOf(() => parseTreeNode({ contentType: 'text/plain', refs: [], content: utf8('x') })),
    ).toContain('text/plain');
  });
});
