/** Places for work: never more than there are, handed on in order, and nobody is left waiting after a failure. */
import { expect, test } from 'bun:test';
import { TaskPool } from './task-pool.ts';

test('starts no more than its bound, in the order they came', async () => {
  const pool = new TaskPool(2, () => undefined);
  const begun: number[] = [];
  let running = 0;
  const starts = Array.from({ length: 9 }, (_, at) =>
    pool.start(async () => {
      begun.push(at);
      running += 1;
      expect(running).toBeLessThanOrEqual(2);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    }),
  );
  await Promise.all(starts);
  await pool.finish();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test('after a failure everyone who waits for a place hears of it, and nothing more begins', async () => {
  const heard: unknown[] = [];
  const pool = new TaskPool(1, (error) => heard.push(error));
  const planted = new Error('planted');
  let fail: (error: Error) => void = () => undefined;
  await pool.start(() => new Promise<void>((_, reject) => (fail = reject)));
  const begun: number[] = [];
  const waiting = [1, 2, 3].map((at) =>
    pool.start(async () => void begun.push(at)).catch((error: unknown) => error),
  );
  fail(planted);
  expect(await Promise.all(waiting)).toEqual([planted, planted, planted]);
  expect(await pool.finish().catch((error: unknown) => error)).toBe(planted);
  expect(begun).toEqual([]);
  expect(heard).toEqual([planted]);
});
