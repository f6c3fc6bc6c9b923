import { expect, test } from 'bun:test';
import { StrangerBound } from './audit-log.ts';

const KIB = 1024;

function openBound(processes = 1) {
  let now = 0;
  const timers: { at: number; callback: () => void }[] = [];
  const said: number[] = [];
  const bound = new StrangerBound(processes, (suppressed) => said.push(suppressed), {
    now: () => now,
    schedule: (callback, delayMs) => void timers.push({ at: now + delayMs, callback }),
  });
  const advance = (ms: number): void => {
    now += ms;
    for (const timer of timers.splice(0)) {
      if (timer.at <= now) timer.callback();
      else timers.push(timer);
    }
  };
  return { bound, said, advance };
}

test('strangers write no more than the bound in any time, and the rest is counted and said', () => {
  const { bound, said, advance } = openBound();
  let written = 0;
  let refused = 0;
  for (let ms = 0; ms < 60_000; ms += 10) {
    if (bound.admits(2 * KIB, 1)) written += 2 * KIB;
    else refused += 1;
    advance(10);
  }
  expect(written).toBeGreaterThan(60 * 16 * KIB);
  expect(written).toBeLessThanOrEqual((60 + 8) * 16 * KIB);
  bound.flush();
  expect(said.reduce((sum, each) => sum + each, 0)).toBe(refused);
  // A line every half a second at most says it.
  expect(said.length).toBeLessThanOrEqual(121);
});

test('a line counts with all that stand behind it, and processes share the bound', () => {
  const { bound, said, advance } = openBound(2);
  expect(bound.admits(64 * KIB, 1)).toBe(true);
  expect(bound.admits(1, 7)).toBe(false);
  advance(1);
  expect(bound.admits(8, 1)).toBe(true);
  advance(499);
  expect(said).toEqual([7]);
  bound.flush();
  expect(said).toEqual([7]);
});
