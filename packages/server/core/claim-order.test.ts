import { expect, test } from 'bun:test';
import { Pass } from './run-gc.ts';

test('each claim of a pass begins where the one before it ended, or at the first child that it freed, and the last at the start', async () => {
  const found = [2, 2, 2];
  const freed = [9, 3, 9];
  const asked: number[] = [];
  const claims = { forgotten: [], claimed: [], claimedAt: 0 };
  const steps = {
    findLeftovers: async () => ({ ...claims, found: 0, next: 0 }),
    claim: async (_limit: number, from: number) => {
      asked.push(from);
      return { ...claims, found: found.shift() ?? 0, next: from + 5 };
    },
    finish: async () => ({ forgotten: [], gone: 0, next: freed.shift() ?? 0, failed: 0, failure: undefined }),
  };
  expect((await new Pass(steps, 100).run()).examined).toBe(6);
  expect(asked).toEqual([0, 5, 3, 8, 0]);
});
