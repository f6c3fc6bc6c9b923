/** The snapshots that a policy keeps. */

import { describe, expect, test } from 'bun:test';
import { DAY_MS } from '@holdfast/protocol';
import fc from 'fast-check';
import { CatalogError } from './catalog-error.ts';
import type { Snapshot } from './catalog-format.ts';
import { decideRetention, type RetentionPolicy } from './retention.ts';

let count = 0;
/** `when`: `2026-11-22T10:00` in UTC. */
function at(when: string, changes: Partial<Snapshot> = {}): Snapshot {
  count += 1;
  return {
    id: count.toString(16).padStart(16, '0'),
    name: 'home',
    root: 'a'.repeat(64),
    time: Date.parse(`${when}Z`),
    host: 'h',
    path: '/p',
    bytes: 1,
    ...changes,
  };
}

const NOW = Date.parse('2026-11-30T12:00Z');

function keptTimes(snapshots: readonly Snapshot[], policy: RetentionPolicy): string[] {
  const { kept, forgotten } = decideRetention(snapshots, policy, NOW);
  expect(kept.length + forgotten.length).toBe(snapshots.length);
  return kept.map(({ time }) => new Date(time).toISOString().slice(0, 16));
}

function codeOf(snapshots: readonly Snapshot[], policy: RetentionPolicy): string {
  try {
    decideRetention(snapshots, policy, NOW);
    return 'decided';
  } catch (error) {
    if (error instanceof CatalogError) return error.code;
    throw error;
  }
}

describe('a policy keeps', () => {
  const days = [
    '2026-11-20T23:59',
    '2026-11-21T00:00',
    '2026-11-21T23:00',
    '2026-11-25T01:00',
    '2026-11-29T09:00',
  ];
  const list = days.map((day) => at(day));

  test('the newest N', () => {
    expect(keptTimes(list, { last: 2 })).toEqual(days.slice(3));
    expect(keptTimes(list, { last: 9 })).toEqual(days);
    expect(keptTimes([...list].reverse(), { last: 1 })).toEqual(days.slice(4));
  });

  test('those not older than a time before now', () => {
    expect(keptTimes(list, { withinMs: 5.5 * DAY_MS })).toEqual(days.slice(3));
  });

  test('the newest of each day, of days in UTC that have one', () => {
    expect(keptTimes(list, { daily: 3 })).toEqual([days[2], days[3], days[4]] as string[]);
  });

  test('the oldest too while there are fewer days than it counts', () => {
    expect(keptTimes(list, { daily: 4 })).toEqual([days[0], days[2], days[3], days[4]] as string[]);
    const sameDay = [at('2026-11-21T00:00'), at('2026-11-21T01:00'), at('2026-11-21T02:00')];
    expect(keptTimes(sameDay, { daily: 2 })).toEqual(['2026-11-21T00:00', '2026-11-21T02:00']);
    expect(keptTimes(sameDay, { daily: 1 })).toEqual(['2026-11-21T02:00']);
  });

  test('the newest of each week, which begins on Monday, also over the end of a year', () => {
    // Sunday, Monday, Wednesday; then Thursday and Friday of one week in two years.
    const weeks = ['2026-11-22T23:59', '2026-11-23T00:00', '2026-11-25T00:00'];
    expect(
      keptTimes(
        weeks.map((week) => at(week)),
        { weekly: 2 },
      ),
    ).toEqual([weeks[0], weeks[2]] as string[]);
    const years = ['2025-12-28T10:00', '2025-12-31T10:00', '2026-01-01T10:00'];
    const { kept } = decideRetention(
      years.map((year) => at(year)),
      { weekly: 2 },
      NOW,
    );
    expect(kept.map(({ reasons }) => reasons)).toEqual([['weekly 2025-W52'], ['weekly 2026-W01']]);
  });

  test('the newest of each month', () => {
    const months = ['2026-08-31T23:59', '2026-09-01T00:00', '2026-11-01T00:00', '2026-11-30T00:00'];
    expect(
      keptTimes(
        months.map((month) => at(month)),
        { monthly: 2 },
      ),
    ).toEqual([months[1], months[3]] as string[]);
  });

  test('what any of its rules keeps, and says which', () => {
    const { kept, forgotten } = decideRetention(list, { last: 1, daily: 1, monthly: 1 }, NOW);
    expect(kept.map(({ reasons }) => reasons)).toEqual([['last 1', 'daily 2026-11-29', 'monthly 2026-11']]);
    expect(forgotten.map(({ reasons }) => reasons)).toEqual(Array(4).fill(['no rule keeps it']));
  });

  test('what is pinned, which counts as any other', () => {
    const pinned = at('2026-01-01T00:00', { pinned: true });
    expect(keptTimes([pinned, ...list], { last: 1 })).toEqual(['2026-01-01T00:00', days[4]] as string[]);
    expect(keptTimes([...list, at('2026-11-30T00:00', { pinned: true })], { last: 1 })).toEqual([
      '2026-11-30T00:00',
    ]);
  });
});

describe('a policy is refused', () => {
  const list = [at('2026-11-20T00:00')];

  test('without a rule, or one below 1', () => {
    for (const policy of [
      {},
      { last: 0 },
      { daily: -1 },
      { weekly: 1.5 },
      { withinMs: 0 },
      { last: undefined },
    ]) {
      expect([policy, codeOf(list, policy)]).toEqual([policy, 'INVALID_ARGUMENT']);
    }
  });

  test('when it keeps nothing', () => {
    expect(codeOf(list, { withinMs: DAY_MS })).toBe('KEEPS_NOTHING');
    expect(codeOf([], { withinMs: DAY_MS })).toBe('decided');
  });

  test('when a snapshot is of the future, by more than clocks differ', () => {
    expect(codeOf([...list, at('2026-11-30T12:02')], { last: 1 })).toBe('TIME_IN_FUTURE');
    expect(codeOf([...list, at('2026-11-30T12:00:30')], { last: 1 })).toBe('decided');
  });
});

test('every policy keeps at most so many of each period, the newest always, and never less when it has another rule', () => {
  const times = fc.uniqueArray(fc.integer({ min: NOW - 400 * DAY_MS, max: NOW }), {
    minLength: 1,
    maxLength: 40,
  });
  const counts = fc.record({ daily: fc.integer({ min: 1, max: 9 }), weekly: fc.integer({ min: 1, max: 9 }) });
  fc.assert(
    fc.property(times, counts, fc.integer({ min: 1, max: 9 }), (instants, policy, last) => {
      const list = instants.map((time) => at('2026-11-30T12:00', { time }));
      const { kept } = decideRetention(list, policy, NOW);
      const periods = new Set(list.map(({ time }) => new Date(time).toISOString().slice(0, 10)));
      expect(kept.length).toBeLessThanOrEqual(policy.daily + policy.weekly + 1);
      expect(kept.length).toBeGreaterThanOrEqual(Math.min(policy.daily, periods.size));
      expect(kept.at(-1)?.time).toBe(Math.max(...instants));
      const more = decideRetention(list, { ...policy, last }, NOW).kept.map(({ id }) => id);
      for (const { id } of kept) expect(more).toContain(id);
    }),
  );
});
