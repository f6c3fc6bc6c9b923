/** Entries that cannot be stored are left out and named, and whatever happens to paths meanwhile, nothing outside the tree is read. */
import { afterEach, describe, expect, test } from 'bun:test';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeNode } from '@holdfast/protocol';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { toByteString } from '../byte-names.ts';
import type { FileStats } from '../entry-stats.ts';
import { scanOptions } from '../test/scan-options.ts';
import { isSettled } from './entry-reader.ts';
import { FolderSupply } from './folder-supply.ts';
import { MemoryState } from './memory-state.ts';
import { type ScannedRoot, type ScanOptions, scanTree } from './scan-tree.ts';
import { type SourceFolder, SourceTree } from './source-tree.ts';

const folder = makeTempFolder('left-out', { fast: true });
afterEach(() => rmSync(tree(), { recursive: true, force: true }));
const tree = (...names: readonly string[]): string => join(folder.path, 'tree', ...names);

function write(...names: readonly string[]): void {
  mkdirSync(join(tree(...names), '..'), { recursive: true });
  writeFileSync(tree(...names), names.join('/'));
}

/** Calls `hook` after each step on a folder of the tree; what it throws is what the step throws. */
class HookedTree extends SourceTree {
  readonly #hook: (step: string, path: string) => void;

  constructor(hook: (step: string, path: string) => void) {
    super(toByteString(tree()));
    this.#hook = hook;
  }

  override folder(path: string): SourceFolder {
    const real = super.folder(path);
    const below = (name: string): string => (path === '' ? name : `${path}/${name}`);
    const hooked = <T>(step: string, at: string, value: T): T => {
      this.#hook(step, at);
      return value;
    };
    return {
      list: () => hooked('list', path, real.list()),
      lookAt: (name) => hooked('lookAt', below(name), real.lookAt(name)),
      openFile: (name) => hooked('openFile', below(name), real.openFile(name)),
      readLink: (name) => real.readLink(name),
      mtimeNs: (name) => real.mtimeNs(name),
      pathOf: (name) => real.pathOf(name),
    };
  }
}

async function scan(changes: Partial<ScanOptions> = {}): Promise<ScannedRoot> {
  const scanned = await scanTree({
    ...scanOptions(tree(), new MemoryState()),
    isStrict: false,
    ignoreFileNames: ['.holdfastignore'],
    ...changes,
  });
  changes.tree?.close();
  return scanned;
}

const said = ({ leftOut }: ScannedRoot): string[] => leftOut.map(({ path, why }) => `${path}: ${why}`);

function fail(code: string): never {
  throw Object.assign(new Error(`${code}: planted, open '/proc/self/fd/9/x'`), { code, syscall: 'open' });
}

describe('what cannot be read', () => {
  test.each([
    ['openFile', 'b/f', 'EACCES', ['b/f: permission denied'], ['b', 'f']],
    ['list', 'b', 'EACCES', ['b: permission denied'], ['b']],
    ['lookAt', 'b/f', 'EIO', ['b/f: the disk failed to read it'], ['b', 'f']],
    ['openFile', 'b/f', 'ESTALE', ['b/f: ESTALE: planted'], ['b', 'f']],
  ])('%s of %s fails with %s: all the rest is stored', async (step, path, code, leftOut, removed) => {
    for (const names of [['a'], ['b', 'f'], ['b', 'g'], ['c', 'f']]) write(...names);
    const hook = (at: string, where: string): void => {
      if (at === step && where === path) fail(code);
    };
    const scanned = await scan({ tree: new HookedTree(hook) });
    expect(said(scanned)).toEqual(leftOut);
    await expect(scan({ tree: new HookedTree(hook), isStrict: true })).rejects.toThrow('cannot be stored');
    rmSync(tree(...removed), { recursive: true });
    expect(scanned.hash).toBe((await scan()).hash);
  });

  test('no more files may be open: the push fails, instead of leaving out half of the tree', async () => {
    write('a');
    const hook = (step: string): void => {
      if (step === 'openFile') fail('EMFILE');
    };
    await expect(scan({ tree: new HookedTree(hook) })).rejects.toThrow('EMFILE');
  });

  test('the patterns of a folder cannot be read: the folder is left out, and the root fails', async () => {
    for (const names of [['a'], ['b', '.holdfastignore'], ['b', 'secret']]) write(...names);
    const hook = (step: string, path: string): void => {
      if (step === 'openFile' && path.endsWith('.holdfastignore')) fail('EACCES');
    };
    const scanned = await scan({ tree: new HookedTree(hook) });
    expect(said(scanned)).toEqual(['b: its ignore file .holdfastignore cannot be read (permission denied)']);
    expect(scanned.entryCount).toBe(2);
    write('.holdfastignore');
    await expect(scan({ tree: new HookedTree(hook) })).rejects.toThrow('.holdfastignore (permission denied)');
  });
});

describe('what changes meanwhile', () => {
  test('a file or folder that goes away after it was listed is named, unless patterns leave it out', async () => {
    for (const names of [['a'], ['gone'], ['going', 'f'], ['gone.tmp']]) write(...names);
    writeFileSync(tree('.holdfastignore'), '*.tmp\n');
    const scanned = await scan({
      tree: new HookedTree((step) => {
        if (step !== 'list') return;
        for (const name of ['gone', 'going', 'gone.tmp'])
          rmSync(tree(name), { recursive: true, force: true });
      }),
    });
    expect(said(scanned)).toEqual(
      ['going', 'gone'].map((name) => `${name}: it went away while the tree was read`),
    );
    expect(scanned.hash).toBe((await scan()).hash);
  });

  test.skipIf(process.platform !== 'linux')(
    'a folder that is renamed, or swapped for a link, is read to its end as it was',
    async () => {
      const names = Array.from({ length: 300 }, (_, at) => `f${at}`);
      for (const name of names) write('b', name);
      const outside = join(folder.path, 'outside');
      mkdirSync(outside, { recursive: true });
      for (const name of names) writeFileSync(join(outside, name), 'a secret');
      const { hash } = await scan();
      let isSwapped = false;
      const swap = (step: string, path: string): void => {
        if (isSwapped || step !== 'openFile' || path !== 'b/f1') return;
        isSwapped = true;
        renameSync(tree('b'), tree('moved'));
        symlinkSync(outside, tree('b'));
      };
      const scanned = await scan({ tree: new HookedTree(swap) });
      expect([isSwapped, scanned.hash, scanned.leftOut]).toEqual([true, hash, []]);
    },
  );

  test('nothing is read through a link that takes the place of a folder before a node is made again', async () => {
    write('b', 'f');
    const state = new MemoryState();
    const scanned = await scan({ state });
    const outside = join(folder.path, 'elsewhere');
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, 'f'), 'b/f');
    renameSync(tree('b'), join(folder.path, 'aside'));
    symlinkSync(outside, tree('b'));
    const held = new SourceTree(toByteString(tree()));
    const supply = new FolderSupply(held, scanned, state);
    const [below] = await supply.listChildren(supply.root);
    const [file] = await supply.listChildren(below as NonNullable<typeof below>);
    await expect(supply.makeNode(file as NonNullable<typeof file>)).rejects.toThrow('b/f');
    held.close();
    rmSync(join(folder.path, 'aside'), { recursive: true });
  });

  test('a tree deeper than folders are held open is read as it is, up and down', async () => {
    const deep = Array.from({ length: 150 }, () => 'd');
    for (let depth = 0; depth <= deep.length; depth += 10) write(...deep.slice(0, depth), `z${depth}`);
    const state = new MemoryState();
    const scanned = await scan({ state });
    expect([scanned.entryCount, said(scanned)]).toEqual([1 + 150 + 16, []]);
    const held = new SourceTree(toByteString(tree()));
    const supply = new FolderSupply(held, scanned, state);
    const contents: string[] = [];
    for (const queue = [supply.root]; queue.length > 0; ) {
      const node = queue.pop() as (typeof queue)[number];
      if (node.isLeaf) contents.push(Buffer.from(decodeNode(await supply.makeNode(node)).content).toString());
      else queue.push(...(await supply.listChildren(node)));
    }
    held.close();
    expect(contents.sort()).toEqual(
      Array.from({ length: 16 }, (_, at) => [...deep.slice(0, at * 10), `z${at * 10}`].join('/')).sort(),
    );
  });
});

test('a change has settled when another one would show', () => {
  const stats = (mtimeMs: number, ctimeMs: number): FileStats => ({ mtimeMs, ctimeMs }) as FileStats;
  const seenAt = 1_000_000.5;
  const past = seenAt - 10_000;
  expect(isSettled(stats(past, past), seenAt)).toBe(true);
  expect(isSettled(stats(seenAt - 50, seenAt - 50), seenAt)).toBe(false);
  expect(isSettled(stats(past, seenAt - 50), seenAt)).toBe(false);
  // Somebody set it: the next write gives another one.
  expect(isSettled(stats(seenAt + 99_999, past), seenAt)).toBe(true);
  // A clock that is ahead.
  expect(isSettled(stats(seenAt + 50, seenAt + 50), seenAt)).toBe(false);
});
