/** Paths are followed as the kernel follows them, links included; what leads nowhere is refused. */
import { afterAll, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { GivenPathError, resolveGivenPath, settleGivenPath } from './given-path.ts';

const folder = makeTempFolder('given-path');
const at = (path: string): string => `${folder.path}/${path}`;
mkdirSync(at('real/sub'), { recursive: true });
mkdirSync(at('plain'));
writeFileSync(at('file'), '');
symlinkSync('real/sub', at('link'));
symlinkSync('file', at('to-file'));
symlinkSync('nowhere', at('dangling'));
symlinkSync('/', at('to-root'));
afterAll(() => folder.remove());

describe('resolveGivenPath', () => {
  test.each([
    ['link', 'link'],
    ['link/', 'real/sub'],
    ['link/.', 'real/sub'],
    ['link/./', 'real/sub'],
    ['link/..', 'real'],
    ['link/../', 'real'],
    ['link/../sub', 'real/sub'],
    ['link/../../file', 'file'],
    ['plain/../link', 'link'],
    ['plain/..', ''],
    ['.//plain/./x', 'plain/x'],
    ['dangling', 'dangling'],
    ['nothing', 'nothing'],
    ['to-file', 'to-file'],
  ])('%s is %s', (given, expected) => {
    const resolved = resolveGivenPath(at(given));
    expect(resolved).toBe(expected === '' ? folder.path : join(folder.path, expected));
    // The kernel agrees wherever something stands there.
    if (!existsSync(at(given))) return;
    expect(statSync(resolved).ino).toBe(statSync(at(given)).ino);
  });

  test.each([
    'nothing/..',
    'nothing/../plain',
    'nothing/.',
    'nothing/',
    'file/',
    'file/.',
    'file/..',
    'file/../plain',
    'to-file/',
    'to-file/..',
    'dangling/',
    'dangling/..',
    'plain/../nothing/../plain',
  ])('%s is refused, as the kernel refuses it', (given) => {
    expect(existsSync(at(given))).toBe(false);
    expect(() => resolveGivenPath(at(given))).toThrow(GivenPathError);
  });

  test('a folder that is to be made may be missing, but not what it is reached through', () => {
    const options = { isMadeFolder: true };
    for (const given of ['nothing/', 'nothing/.'])
      expect(resolveGivenPath(at(given), options)).toBe(at('nothing'));
    for (const given of ['nothing/..', 'file/', 'to-file/', 'nothing/../plain'])
      expect(() => resolveGivenPath(at(given), options)).toThrow(GivenPathError);
  });

  test('a URL names no folder to be made', () => {
    for (const given of ['postgres://u:secret@host/db', 'file:///srv', 'S3://bucket'])
      expect(() => settleGivenPath(given, { isMadeFolder: true })).toThrow('is a URL');
    expect(settleGivenPath('./s3://bucket', { isMadeFolder: true })).toBe('./s3://bucket');
  });

  test('the root has nothing above it', () => {
    expect(
      ['/', '/..', '/../', '//', at('to-root/'), at('to-root/..')].map((path) => resolveGivenPath(path)),
    ).toEqual(['/', '/', '/', '/', '/', '/']);
  });

  test('a relative path begins in the working directory', () => {
    expect(resolveGivenPath('.')).toBe(process.cwd());
    expect(resolveGivenPath('x')).toBe(join(process.cwd(), 'x'));
    expect(() => resolveGivenPath('')).toThrow(GivenPathError);
  });
});

test('a path whose text is enough is left as it was given', () => {
  expect(['data', 'a/b', '/a..b', '-', 'a/..b'].map((path) => settleGivenPath(path))).toEqual([
    'data',
    'a/b',
    '/a..b',
    '-',
    'a/..b',
  ]);
  expect(settleGivenPath(at('link/..'))).toBe(at('real'));
});

test('a name that the runtime has replaced is refused, unless it stands there', () => {
  expect(() => settleGivenPath(at('new\ufffd'))).toThrow('not UTF-8');
  writeFileSync(at('old\ufffd'), '');
  expect(settleGivenPath(at('old\ufffd'))).toBe(at('old\ufffd'));
});
