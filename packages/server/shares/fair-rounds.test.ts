/** Large pieces of work of one thread: a little in each round of the event loop, and Apps in turn. */
import { expect, test } from 'bun:test';
import { FairRounds } from './fair-queue.ts';

const ROUNDS = 40;

/** Runs `works` (App and cost) at once; which round of the event loop each had its turn in. */
async function roundsOf(turns: FairRounds, works: readonly (readonly [string, number])[]): Promise<number[]> {
  let round = 0;
  const done = works.map(async ([app, cost]) => {
    await turns.next(app, 'space', cost);
    return round;
  });
  for (; round < ROUNDS; round += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  return Promise.all(done);
}

test('a round has work of its cost, and at least one piece', async () => {
  const small = await roundsOf(new FairRounds(10), new Array(9).fill(['app', 4]));
  expect(new Set(small).size).toBe(3);
  const large = await roundsOf(new FairRounds(10), new Array(9).fill(['app', 100]));
  expect(new Set(large).size).toBe(9);
});

test('an App that comes later waits for one piece of the work of another', async () => {
  const turns = new FairRounds(10);
  const rounds = await roundsOf(turns, [...new Array(12).fill(['greedy', 100]), ['honest', 100]]);
  const honest = rounds.at(-1) as number;
  expect(rounds.slice(0, -1).filter((round) => round < honest).length).toBeLessThanOrEqual(1);
});

test('work that comes when nothing waits has its turn', async () => {
  const turns = new FairRounds(10);
  for (let count = 0; count < 3; count += 1) expect(await roundsOf(turns, [['app', 100]])).toHaveLength(1);
});
