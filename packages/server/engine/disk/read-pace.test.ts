import { expect, test } from 'bun:test';
import type { OpenFile } from './files.ts';
import { ReadPace } from './read-pace.ts';

const MIB = 1024 * 1024;

/** Reads blocks of a file whose every read takes `durationOf(read)` ms; the answer says which came off the loop. */
async function readBlocks(
  count: number,
  bytes: number,
  durationOf: (read: number) => number,
): Promise<string[]> {
  const calls: string[] = [];
  let now = 0;
  const take = (kind: string, buffer: Uint8Array): number => {
    now += durationOf(calls.length);
    calls.push(kind);
    return buffer.length;
  };
  const file: OpenFile = {
    read: async (buffer) => take('later', buffer),
    readNow: (buffer) => take('now', buffer),
    write: () => Promise.reject(new Error('not written')),
    sync: () => Promise.reject(new Error('not written')),
    sizeNow: () => 0,
    closeNow: () => undefined,
    close: async () => undefined,
  };
  const pace = new ReadPace(file, () => now);
  const buffer = new Uint8Array(bytes);
  for (let block = 0; block < count; block++) expect(await pace.read(buffer, block * bytes)).toBe(bytes);
  return calls;
}

test('a file in memory is read on the spot, and the loop gets its turn every few MiB', async () => {
  const turn = ['later', 'now', 'now', 'now', 'now'];
  expect(await readBlocks(12, MIB, () => 0.1)).toEqual([...turn, ...turn, 'later', 'now']);
});

test('a file on a slow disk is never read on the spot', async () => {
  expect(await readBlocks(4, 1024, () => 5)).toEqual(['later', 'later', 'later', 'later']);
});

test('one slow read on the spot is the last until a quick one', async () => {
  const calls = await readBlocks(6, 1024, (read) => (read === 2 || read === 3 ? 5 : 0.1));
  expect(calls).toEqual(['later', 'now', 'now', 'later', 'later', 'now']);
});
