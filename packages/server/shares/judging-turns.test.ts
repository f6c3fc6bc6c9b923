/** Who has packs judged: few at once, never all of them for one App, and the work in turns. */
import { expect, test } from 'bun:test';
import { JudgingTurns } from './fair-queue.ts';

const BOMBER = { appId: 'bomber', spaceId: 's' };
const HONEST = { appId: 'honest', spaceId: 's' };

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('an App has three packs judged at once, and another App still enters', async () => {
  const turns = new JudgingTurns();
  let entered = 0;
  const entering = Array.from({ length: 5 }, async () => {
    const place = await turns.enter(BOMBER, false);
    entered += 1;
    return place;
  });
  await settle();
  expect(entered).toBe(3);
  const honest = await turns.enter(HONEST, false);
  honest.leave();
  await settle();
  expect(entered).toBe(3);
  for (const place of entering) (await place).leave();
  expect(entered).toBe(5);
});

test('turns are dealt out by what was used, one for each round of the event loop', async () => {
  const turns = new JudgingTurns();
  const order: string[] = [];
  const bombs = [
    await turns.enter(BOMBER, false),
    await turns.enter(BOMBER, false),
    await turns.enter(BOMBER, false),
  ];
  const honest = await turns.enter(HONEST, false);
  const run = async (name: string, { nextTurn }: typeof honest): Promise<void> => {
    for (let count = 0; count < 4; count += 1) {
      await nextTurn(10);
      order.push(name);
    }
  };
  await Promise.all([...bombs.map((place) => run('bomb', place)), run('honest', honest)]);
  expect(order.slice(0, 8).filter((name) => name === 'honest')).toHaveLength(4);
  expect(order).toHaveLength(16);
});

const LONG_BYTES = 100 * 1024 * 1024;

test('of packs that had much, one of the App that holds most gives way to an App that holds none', async () => {
  const turns = new JudgingTurns();
  const bombs = [await turns.enter(BOMBER, false), await turns.enter(BOMBER, false)];
  const small = await turns.enter(BOMBER, false);
  const other = await turns.enter({ appId: 'other', spaceId: 's' }, false);
  const entering = turns.enter(HONEST, false);
  expect([await small.nextTurn(10), await other.nextTurn(LONG_BYTES)]).toEqual([true, true]);
  expect(await bombs[0]?.nextTurn(LONG_BYTES)).toBe(false);
  bombs[0]?.leave();
  (await entering).leave();
  expect(await bombs[1]?.nextTurn(LONG_BYTES)).toBe(true);
});

test('nothing gives way to what gave way before, or to an App that holds a place', async () => {
  const turns = new JudgingTurns();
  const bombs = [await turns.enter(BOMBER, false), await turns.enter(BOMBER, false)];
  const honest = [
    await turns.enter(HONEST, false),
    await turns.enter({ appId: 'other', spaceId: 's' }, false),
  ];
  const waiting = [turns.enter(HONEST, false), turns.enter({ appId: 'third', spaceId: 's' }, true)];
  expect(await bombs[0]?.nextTurn(LONG_BYTES)).toBe(true);
  for (const place of [...bombs, ...honest]) place.leave();
  for (const place of await Promise.all(waiting)) place.leave();
});

test('of packs that had much, one gives way to another Space of its App that holds none', async () => {
  const turns = new JudgingTurns();
  const bombs = await Promise.all([1, 2, 3].map(() => turns.enter(BOMBER, false)));
  const sibling = { ...BOMBER, spaceId: 'other' };
  const entering = turns.enter(sibling, false);
  expect(await bombs[0]?.nextTurn(LONG_BYTES)).toBe(false);
  bombs[0]?.leave();
  const place = await entering;
  // It comes again and waits, and nobody gives way to it.
  const again = turns.enter(BOMBER, true);
  expect([await bombs[1]?.nextTurn(LONG_BYTES), await place.nextTurn(LONG_BYTES)]).toEqual([true, true]);
  place.leave();
  await again;
});
