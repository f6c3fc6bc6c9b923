/** A scan that uses what its survey saw makes the tree that is there when it reads, whatever happened in between. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CHUNK_BYTES_MIN, SILENT_PROGRESS } from '@holdfast/client';
import { toByteString } from '../byte-names.ts';
import type { FolderState } from './folder-state.ts';
import { IgnoreRules } from './ignore-rules.ts';
import { MemoryState } from './memory-state.ts';
import { NameList } from './name-list.ts';
import { type ScanOptions, scanTree } from './scan-tree.ts';
import { Survey } from './survey.ts';
import { SurveyedFolders } from './surveyed-folders.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-surveyed-'));
  for (const name of ['a', 'b', 'b/c']) {
    mkdirSync(join(folder, name));
    for (const file of ['one', 'two']) writeFileSync(join(folder, name, file), `${name} ${file}`);
  }
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function optionsOf(state: FolderState): ScanOptions {
  return {
    root: toByteString(folder),
    state,
    rules: IgnoreRules.from([]),
    ignoreFileNames: ['.holdfastignore'],
    recordsMtime: false,
    skipsSpecial: false,
    distrusted: new Set(),
    progress: SILENT_PROGRESS,
    signal: undefined,
  };
}

/** Surveys, then changes something, then scans with that survey. */
async function scanAfter(change: () => void, state = new MemoryState()) {
  const options = optionsOf(state);
  const survey = new Survey(options);
  await survey.make();
  change();
  return scanTree({ ...options, survey });
}

const scanAnew = () => scanTree(optionsOf(new MemoryState()));
const one = () => join(folder, 'b', 'one');

const CHANGES: readonly [string, () => void][] = [
  ['nothing', () => undefined],
  ['a file of another length', () => writeFileSync(one(), 'something else')],
  ['a file of the same length', () => writeFileSync(one(), 'B ONE')],
  ['a file that has become large', () => writeFileSync(one(), Buffer.alloc(2 * CHUNK_BYTES_MIN, 7))],
  ['a file that has become a link', () => replace(() => symlinkSync('two', one()))],
  ['a file that is gone', () => rmSync(one())],
  ['a folder that is gone', () => rmSync(join(folder, 'b', 'c'), { recursive: true })],
];

function replace(put: () => void): void {
  rmSync(one());
  put();
}

test.each(CHANGES)('%s since the survey', async (_, change) => {
  const { hash, bytes, entryCount, readCount } = await scanAfter(change);
  expect(await scanAnew()).toMatchObject({ hash, bytes, entryCount, readCount });
});

test.each([
  ['pipe', () => Bun.spawnSync(['mkfifo', one()])],
  ['folder', () => mkdirSync(one())],
] as const)('a %s in the place of a file is named, and never taken for one', async (_, put) => {
  const scanned = scanAfter(() => replace(put));
  expect(await scanned.catch((error: Error) => error)).toMatchObject({
    name: 'ScanError',
    message: expect.stringContaining('b/one'),
  });
});

test('a file that is remembered is looked at again', async () => {
  const state = new MemoryState();
  await Bun.sleep(200);
  await scanTree(optionsOf(state));
  const { hash, readCount } = await scanAfter(() => writeFileSync(one(), 'B ONE'), state);
  expect(readCount).toBe(1);
  expect(hash).toBe((await scanAnew()).hash);
});

describe('SurveyedFolders', () => {
  const put = (folders: SurveyedFolders, path: string, ...names: string[]) =>
    folders.put(path, { names: new NameList(names), files: names.map(() => undefined) });

  test('gives what the survey saw, once', async () => {
    const survey = new Survey(optionsOf(new MemoryState()));
    await survey.make();
    const { names, files } = survey.folders.take('b') ?? {};
    expect([...(names ?? [])]).toEqual(['c', 'one', 'two']);
    expect(files?.map((file) => file?.ino)).toEqual([undefined, lstatSync(one()).ino, expect.any(Number)]);
    expect(survey.folders.take('b')).toBeUndefined();
  });

  test('keeps nothing of folders that the scan has come to, whatever their names', () => {
    const folders = new SurveyedFolders();
    folders.take('b!');
    for (const path of ['', 'b', 'b/c', 'b!']) {
      expect(folders.wants(path, 0)).toBe(false);
      put(folders, path, 'file');
      expect(folders.take('b!')).toBeUndefined();
    }
    expect(folders.wants('b!/a', 0)).toBe(true);
    folders.take('b');
    expect(folders.wants('b/c', 0)).toBe(true);
    expect(folders.wants('b!', 0)).toBe(true);
  });

  test('keeps no more entries than it may, and has room again for what was taken', () => {
    const folders = new SurveyedFolders(3);
    put(folders, 'a', 'one', 'two');
    put(folders, 'b', 'one', 'two');
    put(folders, 'c', 'one');
    expect(folders.take('a')?.names.length).toBe(2);
    expect(folders.take('b')).toBeUndefined();
    put(folders, 'd', 'one', 'two');
    expect([folders.take('c')?.names.length, folders.take('d')?.names.length]).toEqual([1, 2]);
  });
});
