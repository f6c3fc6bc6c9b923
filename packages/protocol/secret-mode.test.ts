import { expect, test } from 'bun:test';
import { findExposure } from './secret-mode.ts';

const file = (mode: number, uid: number, isFile = true) => ({
  mode: 0o100000 | mode,
  uid,
  isFile: () => isFile,
});

test('a secret is refused if others may use its file, whatever they may do with it', () => {
  for (const mode of [0o600, 0o400, 0o700]) expect(findExposure('f', file(mode, 7), 7)).toBeUndefined();
  for (const mode of [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o777])
    expect(findExposure('f', file(mode, 7), 7)).toBe(mode.toString(8));
  // Root's own file is judged as anybody's own.
  expect(findExposure('f', file(0o640, 0), 0)).toBe('640');
});

test('a service takes a file of root that its group may read, and no more', () => {
  expect(findExposure('f', file(0o440, 0), 7)).toBeUndefined();
  for (const mode of [0o460, 0o444, 0o450])
    expect(findExposure('f', file(mode, 0), 7)).toBe(mode.toString(8));
  expect(findExposure('f', file(0o440, 8), 7)).toBe('440');
});

test('a pipe and what was handed over are taken with any mode', () => {
  for (const path of ['/dev/stdin', '/dev/fd/63', '/proc/self/fd/3'])
    expect(findExposure(path, file(0o644, 7), 7)).toBeUndefined();
  expect(findExposure('f', file(0o644, 7, false), 7)).toBeUndefined();
});
