/** How parallel a job is: grows while answers are quick, falls when the server sheds load or slows down, never out of bounds. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { AdaptiveLimit } from './adaptive-limit.ts';

function answer(limit: AdaptiveLimit, ms: number, times: number): void {
  for (let time = 0; time < times; time += 1) limit.onAnswer(ms);
}

describe('AdaptiveLimit', () => {
  test('doubles per round of quick answers, after the first sign of load grows by one, up to its maximum', () => {
    const limit = new AdaptiveLimit({ start: 2, max: 10 });
    answer(limit, 5, 2);
    expect(limit.limit).toBe(4);
    answer(limit, 5, 4);
    expect(limit.limit).toBe(8);
    limit.onOverload();
    expect(limit.limit).toBe(4);
    answer(limit, 5, 5);
    expect(limit.limit).toBe(5);
    answer(limit, 5, 1_000);
    expect(limit.limit).toBe(10);
  });

  test('halves at overload, once for one burst of it', () => {
    const limit = new AdaptiveLimit({ start: 16, max: 32 });
    for (let time = 0; time < 16; time += 1) limit.onOverload();
    expect(limit.limit).toBe(8);
    answer(limit, 5, 16);
    limit.onOverload();
    expect(limit.limit).toBeLessThan(8);
  });

  test('falls when answers become slow, not when they always were', () => {
    const far = new AdaptiveLimit({ start: 8, max: 32 });
    answer(far, 900, 200);
    expect(far.limit).toBeGreaterThan(8);
    const queueing = new AdaptiveLimit({ start: 8, max: 32 });
    answer(queueing, 10, 50);
    const before = queueing.limit;
    answer(queueing, 2_000, 200);
    expect(queueing.limit).toBeLessThan(before / 2);
  });

  test('stays from 1 to its maximum whatever happens', () => {
    const events = fc.array(fc.oneof(fc.constant(undefined), fc.double({ min: 0, max: 1e6, noNaN: true })));
    fc.assert(
      fc.property(
        events,
        fc.integer({ min: -5, max: 100 }),
        fc.integer({ min: 0, max: 50 }),
        (told, start, max) => {
          const limit = new AdaptiveLimit({ start, max });
          for (const ms of told) {
            if (ms === undefined) limit.onOverload();
            else limit.onAnswer(ms);
            expect(limit.limit).toBeGreaterThanOrEqual(1);
            expect(limit.limit).toBeLessThanOrEqual(Math.max(1, max));
          }
        },
      ),
    );
  });
});
