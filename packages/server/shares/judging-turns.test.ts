/** Who has packs judged: few at once, never all of them for one App, and the work in turns. */
import { expect, test } from 'bun:test';
import { JudgingTurns } from './judging-turns.ts';

const BOMBER = { appId: 'bomber', spaceId: 's' };
const HONEST = { appId: 'honest', spaceId: 's' };

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('an App has three packs judged at once, and another App still enters', async () => {
  const turns = new JudgingTurns();
  let entered = 0;
  const entering = Array.from({ length: 5 }, async () => {
    const place = await turns.enter(BOMBER);
    entered += 1;
    return place;
  });
  await settle();
  expect(entered).toBe(3);
  const honest = await turns.enter(HONEST);
  honest.leave();
  await settle();
  expect(entered).toBe(3);
  for (const place of entering) (await place).leave();
  expect(entered).toBe(5);
});

test('turns are dealt out by what was used, one for each round of the event loop', async () => {
  const turns = new JudgingTurns();
  const order: string[] = [];
  const bombs = [await turns.enter(BOMBER), await turns.enter(BOMBER), await turns.enter(BOMBER)];
  const honest = await turns.enter(HONEST);
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
