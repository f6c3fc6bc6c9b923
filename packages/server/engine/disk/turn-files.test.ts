import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diskFiles } from './files.ts';
import { TurnFiles } from './turn-files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-turn-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Descriptors of this process in the folder, by the kernel's word. */
function countOpen(): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return targets.filter((target) => target.startsWith(folder)).length;
}

function makeFiles(count: number) {
  const names = Array.from({ length: count }, (_, index) => String(index));
  for (const name of names) writeFileSync(join(folder, name), `file ${name}`);
  const opened: string[] = [];
  const files = new TurnFiles((name) => {
    opened.push(name);
    return diskFiles.openNow(join(folder, name));
  });
  const read = (name: string): string => {
    const buffer = Buffer.alloc(20);
    return buffer.toString('utf8', 0, files.read(name, buffer, 5));
  };
  return { names, opened, read };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a file is opened once in a turn, closed at its end, and opened again in the next', async () => {
  const { opened, read } = makeFiles(2);
  expect([read('0'), read('1'), read('0')]).toEqual(['0', '1', '0']);
  expect([opened, countOpen()]).toEqual([['0', '1'], 2]);
  await turn();
  expect(countOpen()).toBe(0);
  rmSync(join(folder, '0'));
  expect(() => read('0')).toThrow('ENOENT');
  expect(read('1')).toBe('1');
  await turn();
  expect([opened, countOpen()]).toEqual([['0', '1', '0', '1'], 0]);
});

test('a turn that reads many files keeps few of them open', async () => {
  const { names, read } = makeFiles(200);
  expect(names.map(read)).toEqual(names);
  expect(countOpen()).toBeLessThanOrEqual(64);
  await turn();
  expect(countOpen()).toBe(0);
});
