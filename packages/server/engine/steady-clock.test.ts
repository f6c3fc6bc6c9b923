/** The steady clock over clocks of a test, and the machine's own. */

import { expect, test } from 'bun:test';
import { DAY_MS } from '@holdfast/protocol';
import { openMachineTime, SteadyClock, takeTimeOrigin } from './steady-clock.ts';

const STARTED_AT = 1_800_000_000_000;

/** Goes on by a microsecond with each look, so that no test waits. */
function makeTime() {
  const time = {
    elapsedMs: 5_000_000.25,
    setMs: 0,
    pass: (ms: number) => {
      time.elapsedMs += ms;
    },
    elapsed: () => {
      time.pass(0.001);
      return time.elapsedMs;
    },
    wall: () => Math.floor(STARTED_AT + time.elapsed() + time.setMs),
  };
  return time;
}

test('the origin is right to some microseconds, and never too late', () => {
  const origin = takeTimeOrigin(makeTime());
  expect(origin).toBeLessThanOrEqual(STARTED_AT);
  expect(origin).toBeGreaterThan(STARTED_AT - 0.01);
});

test.each([2 * DAY_MS, -2 * DAY_MS, 70_000, -70_000])('a wall clock set by %p ms moves no instant', (ms) => {
  const time = makeTime();
  const clock = new SteadyClock(takeTimeOrigin(time), time);
  const before = clock.now();
  time.setMs = ms;
  time.pass(60_000);
  expect(clock.now() - before).toBe(60_000);
  time.setMs = 0;
  time.pass(60_000);
  expect(clock.now() - before).toBe(120_000);
});

test('a wall clock that stands still gives an origin too', () => {
  expect(takeTimeOrigin({ wall: () => STARTED_AT, elapsed: () => 1000 })).toBe(STARTED_AT - 1000);
});

test('each look at the machine has the same time, which only goes on', () => {
  const [first, second] = [openMachineTime(), openMachineTime()];
  let last = first.elapsed();
  for (let looks = 0; looks < 100; looks += 1) {
    for (const time of [second, first]) {
      const now = time.elapsed();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  }
});
