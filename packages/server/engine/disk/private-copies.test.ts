import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diskFiles, type Files, type UnnamedFile } from './files.ts';
import { PrivateCopies } from './private-copies.ts';

const BYTES = 300_000;
let folder: string;
let copies: PrivateCopies;
let openCount = 0;
let now = 0;

/** Counts what is open; fails where `fault` says so. */
function countingFiles(fault?: 'create' | 'write'): Files {
  return {
    ...diskFiles,
    async createUnnamed(path): Promise<UnnamedFile> {
      if (fault === 'create') throw Object.assign(new Error('injected'), { code: 'EMFILE' });
      const file = await diskFiles.createUnnamed(path);
      openCount += 1;
      return {
        write: (buffer, position) =>
          fault === 'write'
            ? Promise.reject(Object.assign(new Error('injected'), { code: 'ENOSPC' }))
            : file.write(buffer, position),
        toBlob: (length) => file.toBlob(length),
        close() {
          openCount -= 1;
          file.close();
        },
      };
    },
  };
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-copies-'));
  openCount = 0;
  now = 0;
  copies = new PrivateCopies(countingFiles(), folder, 3 * BYTES, () => now);
});
afterEach(async () => {
  await copies.close();
  expect(openCount).toBe(0);
  await rm(folder, { recursive: true });
});

const make = (key: string, value: number) =>
  copies.make(key, BYTES, async (write) => {
    for (let at = 0; at < BYTES; at += 100_000) await write(new Uint8Array(100_000).fill(value));
  });

async function byteOf(blob: Blob | undefined): Promise<number | undefined> {
  if (blob === undefined) return undefined;
  const bytes = await blob.bytes();
  expect(bytes.length).toBe(BYTES);
  expect(bytes.every((byte) => byte === bytes[0])).toBe(true);
  return bytes[0];
}

test('a copy holds its bytes, is found again, and no path leads to it', async () => {
  expect(copies.isKnown('a')).toBe(false);
  expect(await byteOf(await make('a', 7))).toBe(7);
  expect(copies.isKnown('a')).toBe(true);
  expect(await byteOf(await copies.find('a'))).toBe(7);
  expect(await copies.find('b')).toBeUndefined();
  if (process.platform === 'linux') expect(await readdir(folder)).toEqual([]);
});

test('over its bytes the least recently used go, but none that was just handed out', async () => {
  for (const [value, key] of ['a', 'b', 'c', 'd', 'e'].entries()) await make(key, value);
  expect(openCount).toBe(5);
  now += 300;
  expect(await byteOf(await copies.find('a'))).toBe(0);
  expect(openCount).toBe(3);
  expect(['a', 'b', 'c', 'd', 'e'].filter((key) => copies.isKnown(key))).toEqual(['a', 'd', 'e']);
});

test('a blob opened before its copy goes is whole', async () => {
  const blob = await make('a', 9);
  if (blob === undefined) throw new Error('no copy');
  const reader = blob.stream().getReader();
  let length = (await reader.read()).value?.length ?? 0;
  await copies.close();
  for (let next = await reader.read(); !next.done; next = await reader.read()) length += next.value.length;
  expect(length).toBe(BYTES);
});

test('answers that come while a copy is being made share it', async () => {
  const made = make('a', 5);
  expect(copies.isKnown('a')).toBe(true);
  const [first, second, third] = await Promise.all([made, copies.find('a'), make('a', 5)]);
  for (const blob of [first, second, third]) expect(await byteOf(blob)).toBe(5);
  expect(openCount).toBe(1);
});

test('what cannot be read is an error to its maker, nothing to who waits, and leaves nothing', async () => {
  const failing = copies.make('a', BYTES, async (write) => {
    await write(new Uint8Array(10));
    throw new Error('damaged');
  });
  const waiting = copies.find('a');
  await expect(failing).rejects.toThrow('damaged');
  expect(await waiting).toBeUndefined();
  expect([openCount, copies.isKnown('a')]).toEqual([0, false]);
});

test.each(['create', 'write'] as const)(
  'where no copy can be made there is none: %s fails',
  async (fault) => {
    const failing = new PrivateCopies(countingFiles(fault), folder);
    expect(await failing.make('a', BYTES, (write) => write(new Uint8Array(BYTES)))).toBeUndefined();
    expect([openCount, failing.isKnown('a')]).toEqual([0, false]);
    await failing.close();
  },
);
