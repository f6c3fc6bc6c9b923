import { expect, test } from 'bun:test';
import { GuessThrottle } from './guess-throttle.ts';

function makeWorld() {
  let now = 0;
  const waits: { readonly ms: number; readonly end: () => void }[] = [];
  const sleep = (ms: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    waits.push({ ms, end: resolve });
    return promise;
  };
  return { waits, throttle: new GuessThrottle({ now: () => now, sleep }), pass: (ms: number) => (now += ms) };
}

test('whoever goes on guessing waits longer and longer, up to a bound, and others do not', async () => {
  const { waits, throttle, pass } = makeWorld();
  for (let index = 0; index < 3; index++) await throttle.slow('one');
  expect(waits).toHaveLength(0);
  for (let index = 0; index < 7; index++) {
    const slowed = throttle.slow('one');
    waits.at(-1)?.end();
    await slowed;
  }
  expect(waits.map(({ ms }) => ms)).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
  await throttle.slow('other');
  pass(60_000);
  await throttle.slow('one');
  expect(waits).toHaveLength(7);
});

test('of one address only so many wait, and a guess beyond is told to come later', async () => {
  const { waits, throttle } = makeWorld();
  for (let index = 0; index < 3; index++) await throttle.slow('one');
  const slowed = Array.from({ length: 16 }, () => throttle.slow('one'));
  await expect(throttle.slow('one')).rejects.toMatchObject({ code: 'TOO_MANY_GUESSES' });
  for (const { end } of waits) end();
  await Promise.all(slowed);
  const more = throttle.slow('one');
  waits.at(-1)?.end();
  await more;
});

test('of all addresses together only so many wait', async () => {
  const { waits, throttle } = makeWorld();
  const slowed: Promise<void>[] = [];
  for (let peer = 0; peer < 16; peer++) {
    for (let index = 0; index < 3; index++) await throttle.slow(`peer ${peer}`);
    for (let index = 0; index < 16; index++) slowed.push(throttle.slow(`peer ${peer}`));
  }
  for (let index = 0; index < 3; index++) await throttle.slow('late');
  await expect(throttle.slow('late')).rejects.toMatchObject({ code: 'TOO_MANY_GUESSES' });
  for (const { end } of waits) end();
  await Promise.all(slowed);
});
