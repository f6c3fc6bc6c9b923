/** A scan that uses what its survey saw makes the tree that is there when it reads, whatever has happened since. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as timers from 'node:timers/promises';
import { CHUNK_BYTES_MAX, CHUNK_BYTES_MIN } from '@holdfast/client/internal';
import { scanOptions } from '../test/scan-options.ts';
import type { FolderState } from './folder-state.ts';
import { fingerprintOf } from './hash-file.ts';
import { MemoryState } from './memory-state.ts';
import { NameList } from './name-list.ts';
import { type ScanOptions, scanTree } from './scan-tree.ts';
import { Survey, SurveyedFolders } from './survey.ts';

const SETTLED_MS = 150;
let folder: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-surveyed-'));
  for (const name of ['a', 'b', 'b/c']) {
    mkdirSync(join(folder, name));
    for (const file of ['one', 'two']) writeFileSync(join(folder, name, file), `${name} ${file}`);
  }
  // A folder that changed a moment ago is not kept.
  await Bun.sleep(SETTLED_MS);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const optionsOf = (state: FolderState): ScanOptions => ({
  ...scanOptions(folder, state),
  ignoreFileNames: ['.holdfastignore'],
});

/** Surveys, then changes something, then scans with that survey. */
async function scanAfter(
  change: () => void,
  state = new MemoryState(),
  onTaken: (bytes: number) => void = () => undefined,
) {
  const takeNode: ScanOptions['takeNode'] = (_, canonical) => onTaken(canonical.length);
  const options: ScanOptions = { ...optionsOf(state), takeNode };
  const survey = new Survey(options);
  await survey.make();
  change();
  return scanTree({ ...options, survey });
}

const scanAnew = () => scanTree(optionsOf(new MemoryState()));
const one = () => join(folder, 'b', 'one');

const within = (path: string) => join(folder, path);

const CHANGES: readonly [string, () => void][] = [
  ['nothing', () => undefined],
  ['a file of another length', () => writeFileSync(one(), 'something else')],
  ['a file of the same length', () => writeFileSync(one(), 'B ONE')],
  ['a file that became executable', () => chmodSync(one(), 0o755)],
  ['a file that has become large', () => writeFileSync(one(), Buffer.alloc(2 * CHUNK_BYTES_MIN, 7))],
  ['a file that has become a link', () => replace(() => symlinkSync('two', one()))],
  ['a file that has become a folder', () => replace(() => mkdirSync(one()))],
  ['a file that is gone', () => rmSync(one())],
  ['a file that is new', () => writeFileSync(within('b/c/new'), 'new')],
  ['a file that has another name', () => renameSync(one(), within('b/three'))],
  ['a folder that is gone', () => rmSync(within('b/c'), { recursive: true })],
  ['a folder that is new', () => mkdirSync(within('b/new'))],
  ['a folder that another has taken the place of', swapFolders],
  ['patterns that are new', () => writeFileSync(within('b/.holdfastignore'), 'two\n')],
];

function replace(put: () => void): void {
  rmSync(one());
  put();
}

function swapFolders(): void {
  rmSync(within('b'), { recursive: true });
  renameSync(within('a'), within('b'));
}

test.each(CHANGES)('%s since the survey', async (_, change) => {
  const { hash, bytes, entryCount, readCount } = await scanAfter(change);
  expect(await scanAnew()).toMatchObject({ hash, bytes, entryCount, readCount });
});

test.each(['pipe', 'socket'])(
  'a %s in the place of a file is named, and never taken for one',
  async (kind) => {
    const scanned = scanAfter(() => replace(() => putSpecial(kind)));
    expect(await scanned.catch((error: Error) => error)).toMatchObject({
      name: 'ScanError',
      message: expect.stringContaining(`b/one (${kind === 'pipe' ? 'named pipe' : 'socket'})`),
    });
  },
);

function putSpecial(kind: string): void {
  if (kind === 'pipe') Bun.spawnSync(['mkfifo', one()]);
  else Bun.listen({ unix: one(), socket: { data: () => undefined } }).unref();
}

test('many files that were touched since are read at once', async () => {
  for (let index = 0; index < 200; index += 1) writeFileSync(within(`b/c/${index}`), 'touched');
  await Bun.sleep(SETTLED_MS);
  const sleeping = spyOn(timers, 'setTimeout');
  const { readCount } = await scanAfter(() => {
    for (let index = 0; index < 200; index += 1) chmodSync(within(`b/c/${index}`), 0o600);
  });
  expect(readCount).toBe(206);
  expect(sleeping.mock.calls.filter(([ms]) => ms !== 0)).toEqual([]);
  sleeping.mockRestore();
});

test('a large file that was touched since is read once', async () => {
  writeFileSync(one(), randomBytes(3 * CHUNK_BYTES_MAX));
  await Bun.sleep(SETTLED_MS);
  let taken = 0;
  await scanAfter(
    () => chmodSync(one(), 0o600),
    new MemoryState(),
    (bytes) => {
      taken += bytes;
    },
  );
  expect(taken).toBeLessThan(4 * CHUNK_BYTES_MAX);
});

test('a file that is remembered is looked at again', async () => {
  const state = new MemoryState();
  await scanTree(optionsOf(state));
  const { hash, readCount } = await scanAfter(() => writeFileSync(one(), 'B ONE'), state);
  expect(readCount).toBe(1);
  expect(hash).toBe((await scanAnew()).hash);
});

describe('SurveyedFolders', () => {
  const FINGERPRINT = { size: 1, mtimeMs: 2, ctimeMs: 3, inode: 4 };

  function put(folders: SurveyedFolders, path: string, count: number): boolean {
    const names = new NameList(Array.from({ length: count }, (_, index) => String(index)));
    if (!folders.reserve(path, count)) return false;
    folders.put(path, { names, files: [], fingerprint: FINGERPRINT });
    return true;
  }

  test('gives what the survey saw, once, unless the folder is another by now', async () => {
    for (const inode of [lstatSync(within('b')).ino, 7]) {
      const survey = new Survey(optionsOf(new MemoryState()));
      await survey.make();
      const present = { ...fingerprintOf(lstatSync(within('b'))), inode };
      const { names, files } = survey.folders.take('b', present) ?? {};
      expect([...(names ?? [])]).toEqual(inode === 7 ? [] : ['c', 'one', 'two']);
      if (inode !== 7) expect(files?.map((file) => file?.ino)[1]).toBe(lstatSync(one()).ino);
      expect(survey.folders.take('b', present)).toBeUndefined();
    }
  });

  test('keeps nothing of a folder that was changed a moment ago', async () => {
    writeFileSync(within('b/new'), '');
    const survey = new Survey(optionsOf(new MemoryState()));
    await survey.make();
    expect(survey.folders.take('b', fingerprintOf(lstatSync(within('b'))))).toBeUndefined();
    expect(survey.folders.take('b/c', fingerprintOf(lstatSync(within('b/c'))))).toBeDefined();
  });

  test('keeps nothing of folders that the scan has come to, whatever their names', () => {
    const folders = new SurveyedFolders();
    folders.take('b!', FINGERPRINT);
    for (const path of ['', 'b', 'b/c', 'b!']) expect(put(folders, path, 1)).toBe(false);
    expect(put(folders, 'b!/a', 1)).toBe(true);
    folders.take('b', FINGERPRINT);
    expect(put(folders, 'b/c', 1)).toBe(true);
    expect(put(folders, 'b!', 1)).toBe(true);
  });

  test('keeps no more entries than it may, those of open folders included, and has room again for what was taken', () => {
    const folders = new SurveyedFolders(3);
    expect([folders.reserve('a', 2), put(folders, 'a/b', 2), put(folders, 'a/c', 1)]).toEqual([
      true,
      false,
      true,
    ]);
    folders.take('a', FINGERPRINT);
    // The survey ends with it when the scan has come by.
    folders.put('a', { names: new NameList(['1', '2']), files: [], fingerprint: FINGERPRINT });
    expect([put(folders, 'd', 3), put(folders, 'd', 2)]).toEqual([false, true]);
    folders.take('a/c', FINGERPRINT);
    expect(put(folders, 'e', 1)).toBe(true);
  });
});
