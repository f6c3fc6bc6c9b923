import { expect, test } from 'bun:test';
import { encodeNode } from '@holdfast/protocol';
import { makeRandom, type SeededRandom } from '../../../../test/support/seeded-random.ts';
import { FakeSpace } from '../../test/fake-space-fixture.ts';
import { buildDirectory, fileEntry, MemoryNodes, noise, utf8 } from '../../test/tree-fixture.ts';
import {
  buildFile,
  buildSmallFile,
  buildSymlink,
  DirectoryBuilder,
  type NodeSink,
} from '../build/builders.ts';
import { compareNames, type DirectoryEntry } from '../format/tree-format.ts';
import { EditError } from './edit-error.ts';
import { editTree } from './edit-tree.ts';
import type { TreeEdit } from './tree-edit.ts';

/** A folder as a person edits it; what a push makes of it is the oracle. */
type Item =
  | Model
  | { content: Uint8Array; isExecutable: boolean; mtimeNs: bigint | undefined }
  | { target: string };
type Model = Map<string, Item>;

async function build(sink: NodeSink, item: Item): Promise<DirectoryEntry> {
  const entry = fileEntry('');
  if (item instanceof Map) {
    const builder = new DirectoryBuilder(sink);
    const children = [...item].map(([name, child]) => ({ name: utf8(name), child }));
    for (const { name, child } of children.sort((a, b) => compareNames(a.name, b.name))) {
      await builder.add({ ...(await build(sink, child)), name });
    }
    return { ...entry, kind: 'directory', ...(await builder.finish()) };
  }
  if ('target' in item)
    return { ...entry, kind: 'symlink', ...(await buildSymlink(sink, utf8(item.target))) };
  const { content, isExecutable, mtimeNs } = item;
  const isSmall = content.length < 1_000;
  const built = isSmall ? await buildSmallFile(sink, content) : await buildFile(sink, [content]);
  return { ...entry, isExecutable, mtimeNs, ...built };
}

/** Puts the folder into the Space as a push does. */
async function push(space: FakeSpace, model: Model) {
  const nodes = new MemoryNodes();
  const built = await build(nodes, model);
  for (const [hash, node] of nodes.nodes) space.nodes.set(hash, encodeNode(node));
  return built;
}

async function codeOf(work: Promise<unknown>): Promise<readonly [string, string, number]> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EditError)) throw error;
  return [error.code, String(error.path), error.index];
}

const file = (text: string) => ({ content: utf8(text), isExecutable: false, mtimeNs: undefined });

/** Every folder of the model by its path, and every entry. */
function listPaths(model: Model, above = ''): { folders: [string, Model][]; entries: string[] } {
  const found = { folders: [[above, model] as [string, Model]], entries: [] as string[] };
  for (const [name, item] of model) {
    const path = above === '' ? name : `${above}/${name}`;
    found.entries.push(path);
    if (!(item instanceof Map)) continue;
    const below = listPaths(item, path);
    found.folders.push(...below.folders);
    found.entries.push(...below.entries);
  }
  return found;
}

function at(model: Model, path: string): { folder: Model; name: string } {
  const names = path.split('/');
  let folder = model;
  for (const name of names.slice(0, -1)) folder = folder.get(name) as Model;
  return { folder, name: names.at(-1) as string };
}

/** An edit that can be done, done to the model too. */
function editAtRandom(model: Model, random: SeededRandom): TreeEdit {
  const { folders, entries } = listPaths(model);
  const [above, folder] = random.pick(folders) as [string, Model];
  const name = `n${random.below(900)}`;
  const path = above === '' ? name : `${above}/${name}`;
  const from = random.pick(entries);
  const choice = random.below(7);
  if (from !== undefined && choice === 0) {
    const source = at(model, from);
    source.folder.delete(source.name);
    return { op: 'remove', path: from };
  }
  if (from !== undefined && choice <= 2 && path !== from && !path.startsWith(`${from}/`)) {
    const source = at(model, from);
    const item = source.folder.get(source.name);
    if (choice === 1) source.folder.delete(source.name);
    if (item !== undefined) folder.set(name, choice === 1 ? item : structuredClone(item));
    return { op: choice === 1 ? 'move' : 'copy', from, to: path, replace: true };
  }
  if (choice === 3) {
    folder.set(name, new Map());
    return { op: 'set', path, directory: true, replace: true };
  }
  if (choice === 4) {
    folder.set(name, { target: from ?? 'nowhere' });
    return { op: 'set', path, target: from ?? 'nowhere', replace: true };
  }
  const content = random.chance(0.02)
    ? noise(random.below(1 << 30), 3_000_000)
    : utf8(`content ${random.below(50)}`);
  const isExecutable = random.chance(0.3);
  folder.set(name, { content, isExecutable, mtimeNs: undefined });
  return { op: 'set', path, bytes: content, executable: isExecutable, replace: true };
}

test('any edits of any folder give the hash that a push of the edited folder gives', async () => {
  for (let seed = 1; seed <= 25; seed += 1) {
    const random = makeRandom(seed);
    const space = new FakeSpace();
    space.offersBulk = seed % 2 === 0;
    const client = space.client();
    const model: Model = new Map();
    // Every third folder is wide enough for index pages.
    for (let count = seed % 3 === 0 ? 2_000 : 30; count > 0; count -= 1)
      model.set(`n${random.below(9_000)}`, file(`${count % 7}`));
    let { hash } = await push(space, model);
    for (let round = 0; round < 4; round += 1) {
      const edits = Array.from({ length: 1 + random.below(12) }, () => editAtRandom(model, random));
      const edited = await editTree(client, hash, edits);
      const wanted = await build(new MemoryNodes(), model);
      expect({ seed, round, ...edited }).toMatchObject({
        root: wanted.hash,
        entries: wanted.entryCount,
        bytes: wanted.bytes,
      });
      hash = edited.root;
    }
  }
});

test('pages of a wide directory that become few, one or none are those that a push makes', async () => {
  const space = new FakeSpace();
  const client = space.client();
  const names = Array.from({ length: 12_000 }, (_, index) => `f${String(index).padStart(5, '0')}`);
  const model: Model = new Map(names.map((name) => [name, file('x')]));
  const { hash } = await push(space, model);
  for (const [from, to] of [
    [0, 11_999],
    [1, 12_000],
    [40, 12_000],
    [0, 12_000],
    [300, 11_000],
    [0, 6_000],
  ] as const) {
    const left: Model = new Map([...model].filter((_, index) => index < from || index >= to));
    const edited = await editTree(
      client,
      hash,
      names.slice(from, to).map((path) => ({ op: 'remove', path })),
    );
    expect({ from, to, root: edited.root }).toEqual({ from, to, root: (await push(space, left)).hash });
  }
});

test('one file among 100,000 takes few requests and few bytes', async () => {
  const space = new FakeSpace();
  space.offersBulk = true;
  const nodes = new MemoryNodes();
  const built = await buildSmallFile(nodes, utf8('x'));
  const names = Array.from({ length: 100_000 }, (_, index) => `file-${index}`).sort();
  const entries = names.map((name) => fileEntry(name, built));
  const { hash } = await buildDirectory(nodes, entries);
  for (const [each, node] of nodes.nodes) space.nodes.set(each, encodeNode(node));
  const edited = await editTree(space.client(), hash, [{ op: 'set', path: 'file-70000', bytes: utf8('yy') }]);
  expect(space.calls.length).toBeLessThanOrEqual(8);
  expect(space.calls.reduce((total, { body }) => total + body.length, 0)).toBeLessThan(48 * 1024);
  const other = { ...(await buildSmallFile(nodes, utf8('yy'))) };
  entries[names.indexOf('file-70000')] = fileEntry('file-70000', other);
  const wanted = await buildDirectory(nodes, entries);
  expect(edited).toMatchObject({ root: wanted.hash, entries: 100_000, bytes: 100_001, sentNodes: 4 });
});

test('what cannot be edited is an error that names the edit, and nothing is changed', async () => {
  const space = new FakeSpace();
  const client = space.client();
  const model: Model = new Map<string, never>();
  model.set('a', new Map([['b', file('b')]]));
  model.set('f', file('f'));
  model.set('l', { target: 'f' });
  const { hash } = await push(space, model);
  const bytes = utf8('new');
  const wrong: readonly (readonly [TreeEdit, string, string])[] = [
    [{ op: 'set', path: 'a', bytes }, 'EXISTS', 'a'],
    [{ op: 'set', path: 'a', directory: true }, 'EXISTS', 'a'],
    [{ op: 'set', path: 'f', bytes, replace: false }, 'EXISTS', 'f'],
    [{ op: 'set', path: 'x/y', bytes }, 'NO_PARENT', 'x/y'],
    [{ op: 'set', path: 'f/y', bytes }, 'NO_PARENT', 'f/y'],
    [{ op: 'set', path: 'l/y', bytes }, 'NO_PARENT', 'l/y'],
    [{ op: 'remove', path: 'x' }, 'NOT_FOUND', 'x'],
    [{ op: 'remove', path: 'f/x' }, 'NOT_FOUND', 'f/x'],
    [{ op: 'move', from: 'x', to: 'y' }, 'NOT_FOUND', 'x'],
    [{ op: 'move', from: 'f', to: 'l' }, 'EXISTS', 'l'],
    [{ op: 'move', from: 'f', to: 'x/y' }, 'NO_PARENT', 'x/y'],
    [{ op: 'move', from: 'a', to: 'a' }, 'INTO_ITSELF', 'a'],
    [{ op: 'copy', from: 'a', to: 'a/b/c' }, 'INTO_ITSELF', 'a/b/c'],
    [{ op: 'executable', path: 'a', executable: true }, 'NOT_FOUND', 'a'],
    [{ op: 'time', path: 'x', mtimeNs: 1n }, 'NOT_FOUND', 'x'],
    ...['', '/', 'a/', '/a', 'a//b', '.', 'a/..', 'a/\0', '\ud800', 'n'.repeat(256)].map(
      (path) => [{ op: 'remove', path }, 'INVALID_PATH', path] as const,
    ),
  ];
  for (const [edit, code, path] of wrong) {
    expect(await codeOf(editTree(client, hash, [{ op: 'set', path: 'ok', bytes }, edit]))).toEqual([
      code,
      path,
      1,
    ]);
  }
  expect(space.calls.filter(({ kind }) => kind === 'lease' || kind === 'upload')).toEqual([]);
});

test('parents, streams, Blobs, nodes, bits and times are taken as they are given', async () => {
  const space = new FakeSpace();
  const client = space.client();
  const large = new Uint8Array(noise(7, 5_000_000));
  const stored = await editTree(client, undefined, [{ op: 'set', path: 'kept', bytes: utf8('kept') }]);
  const edits: TreeEdit[] = [
    { op: 'set', path: 'd/e/f', bytes: new Blob([large]).stream(), executable: true },
    { op: 'set', path: utf8('d/blob'), bytes: new Blob(['blob']) },
    { op: 'set', path: 'd/e', directory: true },
    { op: 'set', path: 'd/tree', node: { kind: 'directory', hash: stored.root, bytes: 4, entryCount: 1 } },
    { op: 'set', path: 'd/e/f', bytes: utf8('again'), executable: 'kept' },
    { op: 'time', path: 'd/blob', mtimeNs: -5n },
    { op: 'copy', from: 'd', to: 'copy' },
    { op: 'executable', path: 'copy/e/f', executable: false },
  ];
  const folder = (isExecutable: boolean): Model =>
    new Map<string, never>([
      ['e', new Map([['f', { content: utf8('again'), isExecutable, mtimeNs: undefined }]]) as never],
      ['blob', { content: utf8('blob'), isExecutable: false, mtimeNs: -5n } as never],
      ['tree', new Map([['kept', file('kept')]]) as never],
    ]);
  const wanted = await push(
    space,
    new Map([
      ['d', folder(true)],
      ['copy', folder(false)],
    ]),
  );
  expect(await editTree(client, undefined, edits, { parents: true })).toMatchObject({
    root: wanted.hash,
    bytes: wanted.bytes,
  });
});

test('names are told apart by their bytes, whether they are UTF-8 or not', async () => {
  const space = new FakeSpace();
  const bytes = Array.from({ length: 256 }, (_, byte) => byte).filter(
    (byte) => ![0, 0x2e, 0x2f].includes(byte),
  );
  const names = bytes.flatMap((byte) => [Uint8Array.of(byte), Uint8Array.of(0xef, 0xbb, 0xbf, byte)]);
  const edits = names.map((path): TreeEdit => ({ op: 'set', path, bytes: path }));
  const { root, entries } = await editTree(space.client(), undefined, edits);
  const nodes = new MemoryNodes();
  const builder = new DirectoryBuilder(nodes);
  for (const name of names.sort(compareNames))
    await builder.add({ ...fileEntry(''), name, ...(await buildSmallFile(nodes, name)) });
  expect([root, entries]).toEqual([(await builder.finish()).hash, names.length]);
});
