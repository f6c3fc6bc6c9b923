import { expect, test } from 'bun:test';
import { OpenFolders } from './open-folders.ts';

test('a folder is reached however deep it is, and never through a descriptor that was dropped', () => {
  const open = new Map<number, number>([[0, 0]]);
  let next = 1;
  const folders = new OpenFolders<number>({
    descriptor: 0,
    openMax: 4,
    parentOf: (level) => (level > 1 ? level - 1 : undefined),
    open: (parent, level) => {
      expect(open.get(parent)).toBe(level - 1);
      open.set(next, level);
      return next++;
    },
    drop: (descriptor) => void open.delete(descriptor),
  });
  for (const level of [50_000, 49_998, 49_000, 49_001, 1, 2, 1, 50_000])
    expect(open.get(folders.descriptorOf(level))).toBe(level);
  expect(folders.descriptorOf(undefined)).toBe(0);
  expect(open.size).toBeLessThan(20);
});
