/** Orders for the thread that writes rows: they are sent in fair order, a few at a time, and a crowd is refused first. */
import { expect, test } from 'bun:test';
import type { ApiError } from '@holdfast/protocol';
import { costOf, OrderQueue } from './thread-row-writer.ts';

const BIG = 1_001;

interface Pushed {
  readonly queue: OrderQueue;
  readonly refused: { readonly id: number; readonly error: ApiError }[];
  push(id: number, appId: string, cost: number): void;
  /** ids of the orders sent to the thread */
  take(workingCost?: number): number[];
}

function open(): Pushed {
  const queue = new OrderQueue();
  const refused: { id: number; error: ApiError }[] = [];
  return {
    queue,
    refused,
    push(id, appId, cost) {
      queue.push([id, 'transact'], { appId, spaceId: 's' }, cost, (error) =>
        refused.push({ id, error: error as ApiError }),
      );
    },
    take: (workingCost = 0) => queue.take(workingCost, () => undefined).map(([id]) => id),
  };
}

test('the thread gets one large commit at a time, and small ones of another App before the next', () => {
  const { push, take } = open();
  for (let id = 1; id <= 3; id += 1) push(id, 'greedy', BIG);
  expect(take()).toEqual([1]);
  for (let id = 11; id <= 20; id += 1) push(id, 'honest', 1);
  expect(take(BIG)).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
  expect(take()).toEqual([2]);
  expect(take(BIG)).toEqual([]);
  expect(take()).toEqual([3]);
});

test('many small orders go together', () => {
  const { push, take } = open();
  for (let id = 1; id <= 500; id += 1) push(id, 'honest', 1);
  expect(take().length).toBe(500);
});

test('if too much waits, the oldest order of the share that holds most is refused', () => {
  const { push, refused, queue } = open();
  push(1, 'honest', 1);
  for (let id = 2; id <= 103; id += 1) push(id, 'greedy', BIG);
  expect(refused.map(({ id }) => id)).toEqual([2, 3, 4]);
  expect(refused[0]?.error).toMatchObject({ code: 'RESOURCE_EXHAUSTED', retryAfterSeconds: 1 });
  expect(queue.length).toBe(100);
});

test('a transaction costs about the rows that its input names', () => {
  expect(costOf('commitRootRefs', { hashes: Array(1000).fill('') })).toBe(BIG);
  expect(costOf('decideLease', {})).toBe(1);
  expect(costOf('settleClaims', { claims: [1, 2] })).toBe(3);
});

test('a group of a pack costs as much as what it writes', () => {
  const records = Array.from({ length: 256 }, () => ({}));
  expect(costOf('publishGroup', { records })).toBe(1 + 3 * 256);
  expect(costOf('moveLive', { moves: records })).toBe(257);
  expect(costOf('leaseRows', { hashes: records })).toBe(257);
  expect(costOf('beginPack', { records, quotas: undefined })).toBe(1);
});
