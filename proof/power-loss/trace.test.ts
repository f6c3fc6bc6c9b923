/** Whose call it was must be known, although strace tells the ends of calls late. */
import { afterAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { readTrace } from './trace.ts';

const folder = makeTempFolder('trace');
afterAll(() => folder.remove());

function processesOf(...lines: readonly string[]): Set<number> {
  const path = join(folder.path, 'trace');
  writeFileSync(path, `${lines.join('\n')}\n`);
  return new Set(readTrace(path, 0).calls.map(({ process }) => process));
}

test('a thread whose maker is not yet told belongs to the process', () => {
  const made = processesOf(
    '10 clone3({flags=CLONE_VM|CLONE_THREAD}, 88 <unfinished ...>',
    '11 clone3({flags=CLONE_VM|CLONE_THREAD} => {parent_tid=[12]}, 88) = 12',
    '12 fsync(5) = 0',
    '10 <... clone3 resumed> => {parent_tid=[11]}, 88) = 11',
    '12 fsync(5) = 0',
    '12 fsync(6 <unfinished ...>',
    '10 +++ killed by SIGKILL +++',
  );
  expect(made).toEqual(new Set([10]));
});

test('a process that another made has a number of its own', () => {
  expect(processesOf('10 clone3({flags=CLONE_VFORK}, 88) = 20', '20 fsync(5) = 0')).toEqual(
    new Set([10, 20]),
  );
});
