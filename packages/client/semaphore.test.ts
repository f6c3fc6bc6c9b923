import { expect, test } from 'bun:test';
import { Semaphore } from './semaphore.ts';

test('lets in as much as the limit allows, in order, and what is larger than the limit alone', async () => {
  const semaphore = new Semaphore(10);
  const begun: number[] = [];
  const take = async (weight: number): Promise<() => void> => {
    const release = await semaphore.take(weight);
    begun.push(weight);
    return release;
  };
  const six = await take(6);
  const waiting = [take(5), take(2), take(50)];
  six();
  const [five, two] = await Promise.all(waiting.slice(0, 2));
  expect(begun).toEqual([6, 5, 2]);
  five?.();
  two?.();
  (await waiting[2])?.();
  expect(begun).toEqual([6, 5, 2, 50]);
});

test('whoever gives up waiting holds nothing, and idle waits for the last', async () => {
  const semaphore = new Semaphore(() => 1);
  const first = await semaphore.take();
  const ending = new AbortController();
  const given = semaphore.take(1, ending.signal);
  ending.abort(new Error('no more'));
  expect(await given.catch((error: Error) => error.message)).toBe('no more');
  let isIdle = false;
  const idle = semaphore.idle().then(() => (isIdle = true));
  await Promise.resolve();
  expect(isIdle).toBe(false);
  first();
  await idle;
  (await semaphore.take())();
});
