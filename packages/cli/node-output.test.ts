/** A file that is written all or nothing: what killed processes left of it goes, what others write stays. */
import { afterAll, expect, test } from 'bun:test';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
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
