/** A file that is written all or nothing: what killed processes left of it goes, what others write stays. */
import { afterAll, expect, test } from 'bun:test';
import { randomUUID } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { writeToFile } from './node-output.ts';

const folder = makeTempFolder('node-output', { fast: true });
afterAll(() => folder.remove());

/** A process that has ended: nobody else gets its number so soon. */
function endedProcess(): number {
  return Bun.spawnSync(['true']).pid;
}

const streamOf = (text: string) => new Blob([text]).stream() as ReadableStream<Uint8Array>;

test('what a killed process left of the same file is taken away, and nothing else', async () => {
  const target = join(folder.path, 'tree.car');
  const left = `${target}.${endedProcess()}-${randomUUID()}.part`;
  const others = [
    `${target}.${process.pid}-${randomUUID()}.part`,
    `${target}.${endedProcess()}-${randomUUID()}`,
    `${target}.notes.part`,
    `${join(folder.path, 'other.car')}.${endedProcess()}-${randomUUID()}.part`,
  ];
  for (const path of [left, ...others]) writeFileSync(path, 'x');
  await writeToFile(streamOf('whole'), target);
  expect(readFileSync(target, 'utf8')).toBe('whole');
  const expected = [target, ...others].map((path) => path.slice(folder.path.length + 1)).toSorted();
  expect(readdirSync(folder.path).toSorted()).toEqual(expected);
});

test('a source that fails leaves what stood there, and nothing beside it', async () => {
  const target = join(folder.path, 'kept.car');
  writeFileSync(target, 'before');
  const failing = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.error(new Error('planted'));
    },
  });
  await expect(writeToFile(failing, target)).rejects.toThrow('planted');
  expect(readFileSync(target, 'utf8')).toBe('before');
  expect(readdirSync(folder.path).filter((name) => name.startsWith('kept.car'))).toEqual(['kept.car']);
});

test.each([
  ['file/below', 'part of the path is a file'],
  ['dangling', 'a link that leads nowhere'],
  ['loop', 'a link that leads to itself'],
  ['dangling/below', 'the folder for it does not exist'],
  ['x'.repeat(300), 'longer than the system allows'],
])('%s is refused in a line, and stays as it was', async (name, reason) => {
  const at = (path: string): string => join(folder.path, 'paths', path);
  mkdirSync(at(''));
  writeFileSync(at('file'), 'before');
  symlinkSync('nowhere', at('dangling'));
  symlinkSync('loop', at('loop'));
  await expect(writeToFile(streamOf('new'), at(name))).rejects.toThrow(reason);
  expect(readdirSync(at('')).toSorted()).toEqual(['dangling', 'file', 'loop']);
  expect([readlinkSync(at('dangling')), readFileSync(at('file'), 'utf8')]).toEqual(['nowhere', 'before']);
  rmSync(at(''), { recursive: true });
});

test('a socket is refused in a line', async () => {
  const path = join(folder.path, 'socket');
  const server = Bun.listen({ unix: path, socket: { data: () => {} } });
  await expect(writeToFile(streamOf('new'), path)).rejects.toThrow('it is a socket');
  server.stop(true);
});

test('a name as long as the system allows is written', async () => {
  const path = join(folder.path, 'y'.repeat(255));
  await writeToFile(streamOf('whole'), path);
  expect(readFileSync(path, 'utf8')).toBe('whole');
});
