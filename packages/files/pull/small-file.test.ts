/** Small files: whole, and on disk where that was asked for, before they have their names; nothing is left of one that fails. */
import { afterAll, expect, test } from 'bun:test';
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { freshPaths } from '../test/pull-fixture.ts';
import { placeNew, type SmallFile, writeSmallFile } from './small-file.ts';
import { folderOf } from './target-folder.ts';

const folder = makeTempFolder('small-file', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);
const CONTENT = new Uint8Array(1000).fill(7);

function write(fsync: boolean, sync: (descriptor: number, at: string) => void, at = fresh()): string[] {
  mkdirSync(at);
  const descriptor = openSync(at, 'r');
  const steps: string[] = [];
  const file: SmallFile = {
    folder: folderOf(descriptor),
    partialName: 'partial',
    name: Buffer.from('name'),
    isExecutable: false,
    mtimeNs: undefined,
    fsync,
  };
  try {
    writeSmallFile(
      file,
      CONTENT,
      (...names) => {
        steps.push('place');
        return placeNew(...names);
      },
      (written) => {
        steps.push(`sync of ${fstatSync(written).size} bytes`);
        sync(written, at);
      },
    );
  } finally {
    closeSync(descriptor);
  }
  return [...steps, ...readdirSync(at)];
}

test('a file is on disk before it has its name, if that was asked for', () => {
  expect(write(true, () => undefined)).toEqual(['sync of 1000 bytes', 'place', 'name']);
  expect(write(false, () => undefined)).toEqual(['place', 'name']);
});

test('a file that cannot be brought to disk gets no name, and leaves nothing', () => {
  const at = fresh();
  const fail = (): never => {
    throw new Error('EIO');
  };
  expect(() => write(true, fail, at)).toThrow('EIO');
  expect(readdirSync(at)).toEqual([]);
});
