/** A loop that never waits for anything lets a timer have its turn. */
import { expect, test } from 'bun:test';
import { TimeSlice } from './time-slice.ts';

test('a timer of the moment fires while the loop goes on', async () => {
  let hasFired = false;
  setTimeout(() => {
    hasFired = true;
  }, 0);
  const slice = new TimeSlice();
  for (let round = 0; round < 1e9 && !hasFired; round += 1) {
    const turn = slice.pass();
    if (turn !== undefined) await turn;
    else await undefined;
  }
  expect(hasFired).toBe(true);
});
