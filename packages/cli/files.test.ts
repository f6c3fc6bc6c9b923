import { expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mountSmallDisk } from '../../test/support/small-disk.ts';
import { createFile, readSecretText, readTextFile } from './files.ts';

test('a file of text is not read without an end', async () => {
  for (const read of [readTextFile, readSecretText]) {
    expect(await read('/dev/zero', 'the key set').catch(String)).toMatch(
      /^CliError: the key set \/dev\/zero cannot be read: it has more than 4194304 bytes; check the path$/,
    );
    expect(await read('/dev/null', 'the key set')).toBe('');
  }
});

test('a failing disk is told in words, with what to do', async () => {
  // The system answers EIO, because nothing is mapped at the address 0.
  expect(await readTextFile('/proc/self/mem', 'the key set').catch(String)).toBe(
    'CliError: the key set /proc/self/mem cannot be read: the disk or the system failed to read or write it; check the disk',
  );
});

test('a file that cannot be written whole is not left behind, empty and in the way', () => {
  const disk = mountSmallDisk(1);
  try {
    disk.fill(0);
    const path = join(disk.path, 'private.jwk');
    expect(() => createFile(path, 'the key', 0o600)).toThrow('the disk is full; free some space, or files');
    expect(existsSync(path)).toBe(false);
    disk.empty();
    createFile(path, 'the key', 0o600);
    expect(() => createFile(path, 'another', 0o600)).toThrow('never overwritten');
    expect(existsSync(path)).toBe(true);
  } finally {
    disk.remove();
  }
});
