/** How `npm test` chooses which files run side by side. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { formatDuration, formatProgress, makeScreen } from '../tools/progress.mjs';
import {
  findGroupTimes,
  findNext,
  groupShort,
  makePlanned,
  orderPlanned,
  type Planned,
} from '../tools/test-plan.mjs';
import { until } from './support/until.ts';

const LIMITS = { cores: 2, tasksMax: 6 };

function plan(name: string, ms: number, cpuMs: number, more: Partial<Planned> = {}): Planned {
  return makePlanned({ name, times: { ms, cpuMs }, ...more });
}

/** Plays a whole run through: what ran when, in milliseconds. */
function play(tasks: readonly Planned[], limits = LIMITS): { name: string; from: number; to: number }[] {
  const waiting = orderPlanned(tasks);
  const ran: { name: string; from: number; to: number }[] = [];
  let running: { task: Planned; to: number }[] = [];
  let now = 0;
  while (waiting.length + running.length > 0) {
    for (;;) {
      const next = findNext(
        waiting,
        running.map(({ task }) => task),
        limits,
      );
      if (next === undefined) break;
      waiting.splice(waiting.indexOf(next), 1);
      running.push({ task: next, to: now + next.ms });
      ran.push({ name: next.name, from: now, to: now + next.ms });
    }
    now = Math.min(...running.map(({ to }) => to));
    running = running.filter(({ to }) => to > now);
  }
  return ran;
}

describe('groups of short files', () => {
  const file = (name: string, ms?: number, more: { isAlone?: boolean; engines?: string[] } = {}) => ({
    name,
    times: ms === undefined ? undefined : { ms, cpuMs: ms / 2 },
    engines: [],
    ...more,
  });
  const names = (groups: readonly (readonly { readonly name: string }[])[]) =>
    groups.map((group) => group.map(({ name }) => name).join(' '));

  test('short files share a process; a file that is long, alone, unknown or needs an engine has its own', () => {
    const files = [
      file('a', 200),
      file('long', 2001),
      file('b', 2000),
      file('alone', 200, { isAlone: true }),
      file('store', 200, { engines: ['postgres'] }),
      file('new'),
      file('c', 100),
    ];
    expect(names(groupShort(files))).toEqual(['a b c', 'long', 'alone', 'store', 'new']);
  });

  test('no group takes so long that all others wait for it, and none is lost', () => {
    const files = Array.from({ length: 40 }, (_, index) => file(`${index}`, 1000));
    const groups = groupShort(files);
    expect(groups.map((group) => group.length)).toEqual([15, 15, 10]);
    expect(groups.flat()).toEqual(files);
  });

  test('a group is estimated below the sum of its files, a single file at its own time', () => {
    expect(findGroupTimes([file('a', 1000), file('b', 600)])).toEqual({ ms: 800, cpuMs: 400 });
    expect(findGroupTimes([file('a', 1000)])).toEqual({ ms: 1000, cpuMs: 500 });
    expect(findGroupTimes([file('new')])).toBeUndefined();
  });
});

describe('the plan', () => {
  test('checks come first, then the longest files, then those that run alone; equal ones by name', () => {
    const tasks = [
      plan('b', 5, 5),
      plan('alone', 900, 1, { isAlone: true }),
      plan('long', 500, 5),
      plan('check', 1, 1, { isCheck: true }),
      plan('a', 5, 5),
    ];
    expect(orderPlanned(tasks).map(({ name }) => name)).toEqual(['check', 'long', 'a', 'b', 'alone']);
  });

  test('no more files that keep cores busy run at once than there are cores', () => {
    const busy = ['a', 'b', 'c'].map((name) => plan(name, 1000, 1000));
    expect(play(busy).map(({ from }) => from)).toEqual([0, 0, 1000]);
  });

  test('files that wait run beside busy ones while there are places', () => {
    const waits = Array.from({ length: 5 }, (_, index) => plan(`waits ${index}`, 1000, 100));
    const busy = ['x', 'y'].map((name) => plan(name, 900, 900));
    const ran = play([...waits, ...busy]);
    expect(ran.filter(({ from }) => from === 0).map(({ name }) => name)).toContain('x');
    expect(ran.filter(({ from }) => from === 0)).toHaveLength(LIMITS.tasksMax);
  });

  test('a smaller one goes before a bigger one that does not fit', () => {
    const running = [plan('runs', 1000, 2000)];
    const waiting = orderPlanned([plan('big', 1000, 1500), plan('small', 10, 4)]);
    expect(findNext(waiting, running, LIMITS)?.name).toBe('small');
  });

  test('a file that needs more than all cores runs as well', () => {
    const wide = plan('wide', 1000, 9000);
    expect(findNext([wide], [], LIMITS)).toBe(wide);
    expect(findNext([wide], [plan('runs', 10, 10)], LIMITS)).toBeUndefined();
  });

  test('nothing starts beside a file that runs alone', () => {
    const alone = plan('alone', 1000, 10, { isAlone: true });
    const small = plan('small', 10, 1);
    expect(findNext([small], [alone], LIMITS)).toBeUndefined();
    expect(findNext([alone], [small], LIMITS)).toBeUndefined();
    expect(findNext([alone], [], LIMITS)).toBe(alone);
  });

  test('with one place files run one after the other', () => {
    const tasks = ['a', 'b', 'c'].map((name) => plan(name, 10, 1));
    expect(play(tasks, { cores: 2, tasksMax: 1 }).map(({ from }) => from)).toEqual([0, 10, 20]);
  });

  test('a file without a known time runs too', () => {
    const planned = makePlanned({ name: 'new' });
    expect(planned).toMatchObject({ isCheck: false, isAlone: false });
    expect(planned.ms).toBeGreaterThan(0);
    expect(findNext([planned], [], LIMITS)).toBe(planned);
  });

  const anyTasks = fc
    .array(fc.tuple(fc.nat(5000), fc.nat(12_000), fc.nat(9)), { maxLength: 30 })
    .map((all) => all.map(([ms, cpuMs, kind], at) => plan(`t${at}`, ms, cpuMs, { isAlone: kind === 0 })));
  const anyLimits = fc.record({
    cores: fc.integer({ min: 1, max: 8 }),
    tasksMax: fc.integer({ min: 1, max: 9 }),
  });

  test('every file runs once, none beside one that runs alone, and never more than the places', () => {
    fc.assert(
      fc.property(anyTasks, anyLimits, (tasks, limits) => {
        const ran = play(tasks, limits);
        expect(ran.map(({ name }) => name).sort()).toEqual(tasks.map(({ name }) => name).sort());
        for (const one of ran) {
          const beside = ran.filter(({ from, to }) => from < one.to && one.from < to);
          expect(beside.length).toBeLessThanOrEqual(
            tasks.find(({ name }) => name === one.name)?.isAlone ? 1 : beside.length,
          );
          expect(ran.filter(({ from, to }) => from <= one.from && one.from < to).length).toBeLessThanOrEqual(
            limits.tasksMax,
          );
        }
      }),
    );
  });
});

test('progress is one line: files done, time taken, and what runs', () => {
  const state = { done: 37, all: 190, tookMs: 250_000, failed: 0, names: [] };
  expect(formatProgress(state)).toBe('37 of 190 files, 4 min 10 s');
  expect(formatProgress({ ...state, failed: 2, names: ['a', 'b'] })).toBe(
    '37 of 190 files, 2 not good, 4 min 10 s; now a, b',
  );
  expect([999, 59_600, 61_000].map((ms) => formatDuration(ms))).toEqual(['1 s', '1 min 0 s', '1 min 1 s']);
});

test('a log gets a progress line now and then, never in the middle of another', async () => {
  const written: string[] = [];
  const stream = { write: (text: string) => void written.push(text) };
  const screen = makeScreen(stream, () => 'line', 5);
  screen.print('half');
  await until(() => written.length > 1);
  screen.end();
  expect(written.slice(0, 2)).toEqual(['half', '\n-- line\n']);
});
