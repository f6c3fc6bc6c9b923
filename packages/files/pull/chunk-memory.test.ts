/** Memory that chunks share one after the other, never two at a time. */
import { expect, test } from 'bun:test';
import { ChunkMemory } from './chunk-memory.ts';

const KIB = 1024;

test('what was given back holds a next chunk that fits, once', () => {
  const memory = new ChunkMemory();
  const first = memory.take(1000 * KIB);
  memory.give(first);
  expect(memory.take(1001 * KIB).buffer).not.toBe(first.buffer);
  const second = memory.take(900 * KIB);
  expect(second.buffer).toBe(first.buffer);
  expect(second.length).toBe(900 * KIB);
  for (let round = 0; round < 2; round += 1) memory.give(second);
  expect(memory.take(900 * KIB).buffer).not.toBe(memory.take(900 * KIB).buffer);
});

test('the largest few are kept, and what is small or of others is let go of', () => {
  const memory = new ChunkMemory();
  const chunks = [9, 6, 8, 5, 7, 10, 11, 12].map((size) => memory.take(size * 100 * KIB));
  for (const chunk of chunks) memory.give(chunk);
  expect(chunks.map(({ length }) => length / KIB / 100)).toEqual([9, 0, 8, 0, 7, 10, 11, 12]);
  const small = memory.take(1000);
  memory.give(small);
  expect(small.length).toBe(0);
  const part = new Uint8Array(1000).fill(7).subarray(1);
  memory.give(part);
  expect(part[0]).toBe(7);
});
