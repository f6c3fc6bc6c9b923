/** A process keeps in mind of which hashes it saw an upload, and not without bound. */
import { expect, test } from 'bun:test';
import { hashAt } from '../test/samples.ts';
import { SeenUploads } from './seen-uploads.ts';

test('of many, the oldest is forgotten, and one that is gone at once', () => {
  const seen = new SeenUploads();
  for (let index = 0; index <= 16_384; index += 1) seen.note('space', hashAt(index), true);
  seen.note('space', hashAt(2), false);
  const isSeen = (index: number) => seen.has('space', hashAt(index));
  expect([0, 1, 2, 3, 16_384].map(isSeen)).toEqual([false, true, false, true, true]);
  expect(seen.has('another', hashAt(1))).toBe(false);
});
