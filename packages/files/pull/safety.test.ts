/** A pull never writes outside its target, and never gives wrong bytes a name. */
import { afterAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  CHUNK_CONTENT_TYPE,
  DirectoryBuilder,
  type DirectoryEntry,
  MemoryTree,
  type NodeParts,
  TreeReadError,
} from '@holdfast/client/internal';
import { countOf, encodeNode } from '@holdfast/protocol';
import { buildPlan, directory, file, type Plan } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import {
  failureOf,
  freshPaths,
  makeSource,
  PlanSource,
  readStanding,
  standingOf,
} from '../test/pull-fixture.ts';
import { CheckedFolders } from './checked-folders.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull-safety', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

/** Everything below `path`, partial files too. */
function listAll(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).sort();
}

describe('hostile trees', () => {
  const DIRECTORY = 'application/vnd.holdfast.tree.directory.v1';

  /** A directory as no builder would make it: kind 1, no flags, the given names, empty files. */
  function makeHostile(tree: MemoryTree, names: readonly Uint8Array[], bytes = 0): string {
    const child = addNode(tree, {
      contentType: 'application/vnd.holdfast.tree.file.v1',
      refs: [],
      content: new Uint8Array(0),
    });
    const content = Buffer.concat([
      Uint8Array.of(1, 0, 0, 0),
      ...names.flatMap((name) => {
        const length = Buffer.alloc(2);
        length.writeUInt16LE(name.length);
        const size = Buffer.alloc(8);
        size.writeBigUInt64LE(BigInt(bytes));
        return [Uint8Array.of(1, 0), length, name, size];
      }),
    ]);
    return addNode(tree, {
      contentType: DIRECTORY,
      refs: names.map(() => child),
      content: new Uint8Array(content),
    });
  }

  function addNode(tree: MemoryTree, node: NodeParts): string {
    const hash = createHash('sha256').update(encodeNode(node)).digest('hex');
    tree.nodes.set(hash, node);
    return hash;
  }

  const text = (name: string): Uint8Array => new TextEncoder().encode(name);
  const hostile: readonly [string, readonly Uint8Array[], RegExp][] = [
    ['..', [text('..')], /a name is '\.\.'/],
    ['.', [text('.')], /a name is '\.'/],
    ['a separator', [text('../../escaped')], /a name holds '\/'/],
    ['an absolute path', [text('/tmp/escaped')], /a name holds '\/'/],
    ['NUL', [text('a\0b')], /NUL/],
    ['no name', [text('')], /empty/],
    ['a name twice', [text('a'), text('a')], /twice/],
    ['unsorted names', [text('b'), text('a')], /not sorted/],
  ];
  test.each(hostile)('%s is refused, and nothing is written', async (_, names, reason) => {
    const tree = new MemoryTree();
    const hostileRoot = makeHostile(tree, names);
    const target = fresh();
    expect(await failureOf(pullToPath(new PlanSource(tree), hostileRoot, target), Error)).toMatch(reason);
    expect(existsSync(target)).toBe(false);

    // One level down it is met later; what is beside it may be there, it and what is outside not.
    const builder = new DirectoryBuilder(tree);
    const below = { bytes: 0, entryCount: names.length, isExecutable: false, mtimeNs: undefined };
    await builder.add({ name: text('sub'), kind: 'directory', hash: hostileRoot, ...below });
    const { hash } = await builder.finish();
    expect(await failureOf(pullToPath(new PlanSource(tree), hash, target), TreeReadError)).toMatch(/^sub: /);
    expect(listAll(target)).toEqual(['sub']);
    expect(existsSync(join(folder.path, 'escaped'))).toBe(false);
  });

  test('a directory that says other totals than it has is refused', async () => {
    const { root, tree } = await buildPlan(directory({ a: file(10) }));
    for (const lie of [
      { bytes: 11, entryCount: 1 },
      { bytes: 10, entryCount: 2 },
    ]) {
      const builder = new DirectoryBuilder(tree);
      const entry: DirectoryEntry = {
        name: text('sub'),
        kind: 'directory',
        hash: root,
        ...lie,
        isExecutable: false,
        mtimeNs: undefined,
      };
      await builder.add(entry);
      const { hash } = await builder.finish();
      const message = await failureOf(pullToPath(new PlanSource(tree), hash, fresh()), TreeReadError);
      expect(message).toContain(
        `the node above says ${countOf(lie.entryCount, 'entry', 'entries')} and ${countOf(lie.bytes, 'byte')}`,
      );
    }
  });

  test('a file or link that is another node than its entry says is refused', async () => {
    const tree = new MemoryTree();
    const chunk = addNode(tree, { contentType: CHUNK_CONTENT_TYPE, refs: [], content: text('chunk') });
    for (const kind of ['file', 'symlink'] as const) {
      const builder = new DirectoryBuilder(tree);
      await builder.add({
        name: text('f'),
        kind,
        hash: chunk,
        bytes: 5,
        entryCount: 0,
        isExecutable: false,
        mtimeNs: undefined,
      });
      const { hash } = await builder.finish();
      const target = fresh();
      expect(await failureOf(pullToPath(new PlanSource(tree), hash, target), TreeReadError)).toMatch(
        /^f: .*should be here/,
      );
      expect(listAll(target)).toEqual([]);
    }
  });
});

describe('links in the target are never followed', () => {
  const plan = directory({ sub: directory({ 'a.txt': file(10), deeper: directory({ b: file(5) }) }) });

  test('a link where the tree has a folder stops the pull; --force replaces the link itself', async () => {
    const { root, source } = await makeSource(plan);
    const [target, outside] = [fresh(), fresh()];
    mkdirSync(target);
    mkdirSync(outside);
    symlinkSync(outside, join(target, 'sub'));
    await failureOf(pullToPath(source, root, target), Error);
    await pullToPath(source, root, target, { force: true });
    expect(readStanding(target)).toEqual(standingOf(plan));
    expect(listAll(outside)).toEqual([]);
  });

  test('a link where the tree has a file stops the pull; what it points at keeps its bytes', async () => {
    const { root, source } = await makeSource(plan);
    const [target, outside] = [fresh(), fresh()];
    mkdirSync(join(target, 'sub'), { recursive: true });
    writeFileSync(outside, 'mine');
    symlinkSync(outside, join(target, 'sub', 'a.txt'));
    await failureOf(pullToPath(source, root, target), Error);
    await pullToPath(source, root, target, { force: true });
    expect(readFileSync(outside, 'utf8')).toBe('mine');
    expect(lstatSync(join(target, 'sub', 'a.txt')).isFile()).toBe(true);
  });

  test('a tree with a link and a file through it cannot exist: names are unique and hold no separator', async () => {
    const names = ['link', 'link'].map((name) => new TextEncoder().encode(name));
    const builder = new DirectoryBuilder(new MemoryTree());
    const entry = { hash: 'a'.repeat(64), entryCount: 0, isExecutable: false, mtimeNs: undefined };
    await builder.add({ name: names[0]!, kind: 'symlink', bytes: 1, ...entry });
    expect(() => builder.add({ name: names[1]!, kind: 'file', bytes: 1, ...entry })).toThrow();
  });

  // The folder is swapped for a link to outside at the moment the bytes of a file in it arrive.
  test.each(['held', 'checked'])(
    'a folder that becomes a link meanwhile is not gone through (%s folders)',
    async (access) => {
      const { root, source } = await makeSource(plan);
      const [target, outside] = [fresh(), fresh()];
      mkdirSync(target);
      mkdirSync(outside);
      let isSwapped = false;
      source.onRead = (_hash, node) => {
        if (node.content.length !== 10 || isSwapped) return;
        isSwapped = true;
        renameSync(join(target, 'sub'), join(target, 'moved'));
        symlinkSync(outside, join(target, 'sub'));
      };
      const options = access === 'held' ? {} : { folders: new CheckedFolders(target) };
      const pulling = pullToPath(source, root, target, options);
      expect(await failureOf(pulling)).toContain('follows no links');
      expect(isSwapped).toBe(true);
      expect(listAll(outside)).toEqual([]);
    },
  );

  test('a file that appears meanwhile keeps its bytes', async () => {
    const { root, source } = await makeSource(plan);
    const target = fresh();
    source.onRead = (_hash, node) => {
      if (node.content.length === 10) writeFileSync(join(target, 'sub', 'a.txt'), 'mine');
    };
    expect(await failureOf(pullToPath(source, root, target), Error)).toContain('has appeared while pulling');
    expect(readFileSync(join(target, 'sub', 'a.txt'), 'utf8')).toBe('mine');
    expect(listAll(target).filter((name) => name.endsWith('.part'))).toEqual([]);
  });
});

describe('a file system that folds case', () => {
  /** As `lstat` there: a name that is not there is another one in other letters. */
  function findFolded(at: Buffer): Stats | undefined {
    const path = at.toString();
    const exact = lstatSync(path, { throwIfNoEntry: false });
    if (exact !== undefined) return exact;
    const twin = readdirSync(dirname(path)).find(
      (name) => name.toLowerCase() === basename(path).toLowerCase(),
    );
    return twin === undefined ? undefined : lstatSync(join(dirname(path), twin));
  }

  test.each<[string, Plan]>([
    ['files', directory({ README: file(3, 1), readme: file(3, 2) })],
    ['folders', directory({ Sub: directory({ a: file(1) }), sub: directory({ b: file(2) }) })],
    ['a link and a file', directory({ Name: { kind: 'symlink', target: '/etc' }, name: file(4) })],
  ])('two names that differ by case are an error, not one file: %s', async (_, plan) => {
    const { root, source } = await makeSource(plan);
    const target = fresh();
    const pulling = pullToPath(source, root, target, { findStat: findFolded });
    expect(await failureOf(pulling, Error)).toContain('upper and lower case');
    expect(readdirSync(target)).toHaveLength(1);
  });

  test('a name that stands there in other letters is no file of the tree, even with --force', async () => {
    const { root, source } = await makeSource(directory({ README: file(3) }));
    const target = fresh();
    mkdirSync(target);
    writeFileSync(join(target, 'readme'), 'mine');
    for (const force of [false, true]) {
      const pulling = pullToPath(source, root, target, { findStat: findFolded, force });
      expect(await failureOf(pulling, Error)).toContain('takes it for another name');
    }
    expect(readFileSync(join(target, 'readme'), 'utf8')).toBe('mine');
  });

  test('a tree without such names is pulled and recognised', async () => {
    const plan = directory({ README: file(3), sub: directory({ a: file(2) }) });
    const { root, source } = await makeSource(plan);
    const target = fresh();
    await pullToPath(source, root, target, { findStat: findFolded });
    expect((await pullToPath(source, root, target, { findStat: findFolded })).writtenFiles).toBe(0);
    expect(readStanding(target)).toEqual(standingOf(plan));
  });
});
