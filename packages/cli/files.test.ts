import { expect, test } from 'bun:test';
import { readSecretText, readTextFile } from './files.ts';

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
