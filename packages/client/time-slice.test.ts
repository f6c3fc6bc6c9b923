/** A loop that never waits for anything lets a timer have its turn; one that does wait need not. */
import { expect, spyOn, test } from 'bun:test';
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

test('a loop that waited for something meanwhile goes on at once', async () => {
  let now = 0;
  const clock = spyOn(performance, 'now').mockImplementation(() => now);
  try {
    const slice = new TimeSlice();
    expect(slice.pass()).toBeUndefined();
    await new Promise((resolve) => setTimeout(resolve, 5));
    now = 1_000;
    expect(slice.pass()).toBeUndefined();
    now = 2_000;
    expect(slice.pass()).toBeInstanceOf(Promise);
  } finally {
    clock.mockRestore();
  }
});
