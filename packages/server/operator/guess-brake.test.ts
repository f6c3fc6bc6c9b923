import { expect, test } from 'bun:test';
import { GuessBrake } from './guess-brake.ts';

function makeWorld() {
  let now = 0;
  const waits: { readonly ms: number; readonly end: () => void }[] = [];
  const sleep = (ms: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    waits.push({ ms, end: resolve });
    return promise;
  };
  return { waits, brake: new GuessBrake({ now: () => now, sleep }), pass: (ms: number) => (now += ms) };
}

test('whoever goes on guessing waits longer and longer, up to a bound, and others do not', async () => {
  const { waits, brake, pass } = makeWorld();
  for (let index = 0; index < 3; index++) await brake.slow('one');
  expect(waits).toHaveLength(0);
  for (let index = 0; index < 7; index++) {
    const slowed = brake.slow('one');
    waits.at(-1)?.end();
    await slowed;
  }
  expect(waits.map(({ ms }) => ms)).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
  await brake.slow('other');
  pass(60_000);
  await brake.slow('one');
  expect(waits).toHaveLength(7);
});

test('of one address only so many wait, and a guess beyond is told to come later', async () => {
  const { waits, brake } = makeWorld();
  for (let index = 0; index < 3; index++) await brake.slow('one');
  const slowed = Array.from({ length: 16 }, () => brake.slow('one'));
  await expect(brake.slow('one')).rejects.toMatchObject({ code: 'TOO_MANY_GUESSES' });
  for (const { end } of waits) end();
  await Promise.all(slowed);
  const more = brake.slow('one');
  waits.at(-1)?.end();
  await more;
});

test('of all addresses together only so many wait', async () => {
  const { waits, brake } = makeWorld();
  const slowed: Promise<void>[] = [];
  for (let peer = 0; peer < 16; peer++) {
    for (let index = 0; index < 3; index++) await brake.slow(`peer ${peer}`);
    for (let index = 0; index < 16; index++) slowed.push(brake.slow(`peer ${peer}`));
  }
  for (let index = 0; index < 3; index++) await brake.slow('late');
  await expect(brake.slow('late')).rejects.toMatchObject({ code: 'TOO_MANY_GUESSES' });
  for (const { end } of waits) end();
  await Promise.all(slowed);
});
