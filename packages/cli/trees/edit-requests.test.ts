/** What `holdfast edit … put FILE` reads is the file that it looked at, whatever takes its place. */
import { afterAll, expect, test } from 'bun:test';
import { appendFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, SILENT_PROGRESS } from '@holdfast/client/internal';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { makeEdits, parseEditLines } from './edit-requests.ts';

const folder = makeTempFolder('edit-requests', { fast: true });
afterAll(() => folder.remove());
/** Too large to be read at once. */
const LARGE = 'x'.repeat(100_000);

/** The bytes are read when the edit is made, after `meanwhile`. */
async function put(name: string, meanwhile: (path: string) => void): Promise<string> {
  const path = join(folder.path, name);
  writeFileSync(path, LARGE);
  const request = { op: 'put', file: path, path: 'a' } as const;
  const options = { replace: undefined, progress: SILENT_PROGRESS };
  const [edit] = (await makeEdits({} as Client, [request], options)).edits;
  meanwhile(path);
  return new Response((edit as unknown as { readonly bytes: ReadableStream }).bytes).text();
}

test('a file that only grows has the length that it had', async () => {
  expect(await put('log', (path) => appendFileSync(path, 'more'))).toBe(LARGE);
});

test('a link or another file in its place is not read', async () => {
  writeFileSync(join(folder.path, 'secret'), 'secret');
  const swap = (path: string): void => {
    renameSync(path, `${path}-away`);
    symlinkSync('secret', path);
  };
  await expect(put('swapped', swap)).rejects.toThrow('ELOOP');
  const replace = (path: string): void => {
    renameSync(path, `${path}-away`);
    writeFileSync(path, LARGE);
  };
  await expect(put('replaced', replace)).rejects.toThrow('was replaced while it was read');
});

test('a file of edits may begin with a byte order mark, but may hold none elsewhere', async () => {
  const file = join(folder.path, 'edits');
  const line = '{"op":"mkdir","path":"a"}\r\n';
  writeFileSync(file, `\ufeff${line}${line}`);
  expect(await parseEditLines(file)).toHaveLength(2);
  writeFileSync(file, `${line}\ufeff${line}`);
  await expect(parseEditLines(file)).rejects.toThrow('line 2');
});
