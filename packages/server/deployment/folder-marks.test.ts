/** Folders that Holdfast makes say that they are no part of what they lie in. */
import { afterAll, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { holdDataFolder } from './data-folder.ts';
import { FOLDER_MARKS, markFolder, UNFINISHED_RESTORE } from './folder-marks.ts';

const folder = makeTempFolder('folder-marks');
const at = (...names: readonly string[]): string => join(folder.path, ...names);
afterAll(() => folder.remove());

test('a data folder is marked when it is made, and when one without marks is opened', () => {
  for (const name of ['new', 'old']) {
    if (name === 'old') {
      mkdirSync(at(name));
      for (const file of ['holdfast.db', 'secret.key', '.gitignore']) writeFileSync(at(name, file), 'old');
    }
    holdDataFolder(at(name)).release();
    expect(readFileSync(at(name, '.holdfastignore'), 'utf8')).toBe('*\n');
    expect(statSync(at(name, '.holdfastignore')).mode & 0o777).toBe(0o600);
    // What stands there stays.
    expect(readFileSync(at(name, '.gitignore'), 'utf8')).toBe(name === 'old' ? 'old' : '*\n');
  }
});

test('a folder that is being restored into is marked from the start', () => {
  mkdirSync(at('restored'));
  writeFileSync(at('restored', UNFINISHED_RESTORE), '');
  holdDataFolder(at('restored')).release();
  for (const name of FOLDER_MARKS) expect(existsSync(at('restored', name))).toBe(true);
});

test('a folder that holds things of others is not, because their ignored files are not ours to choose', () => {
  mkdirSync(at('shared'));
  writeFileSync(at('shared', 'notes.txt'), 'mine');
  holdDataFolder(at('shared')).release();
  for (const name of FOLDER_MARKS) expect(existsSync(at('shared', name))).toBe(false);
});

test('nothing fails for the lack of a mark', () => {
  expect(() => markFolder(at('nowhere'))).not.toThrow();
});

test('a mark that a full disk did not take is written at the next start', () => {
  const disk = mountSmallDisk(1);
  try {
    disk.fill(0);
    markFolder(disk.path);
    for (const name of FOLDER_MARKS) expect(existsSync(join(disk.path, name))).toBe(false);
    disk.empty();
    markFolder(disk.path);
    for (const name of FOLDER_MARKS) expect(readFileSync(join(disk.path, name), 'utf8')).toBe('*\n');
  } finally {
    disk.remove();
  }
});
