import { describe, expect, test } from 'bun:test';
import { ManualClock } from '../../test/manual-clock-fixture.ts';
import {
  type JobHangError,
  PROGRESS_INTERVAL_MS,
  type ProgressEvent,
  type RunningProgress,
  startProgress,
} from './progress.ts';

function start({ stallsOnWaitsOnly = false } = {}): {
  clock: ManualClock;
  events: ProgressEvent[];
  progress: RunningProgress;
} {
  const clock = new ManualClock();
  const events: ProgressEvent[] = [];
  const progress = startProgress({
    job: 'push',
    subject: './tree',
    onEvent: (event) => events.push(event),
    stallsOnWaitsOnly,
    clock,
  });
  return { clock, events, progress };
}

function kinds(events: readonly ProgressEvent[]): string[] {
  return events.map(({ type }) => type);
}

describe('events', () => {
  test('many calls make few events, which say where the job is', async () => {
    const { clock, events, progress } = start();
    const startedAt = clock.now();
    progress.phase('transfer');
    progress.expect({ files: 1000 });
    progress.expect({ bytes: 5000 });
    for (let index = 0; index < 1000; index += 1) {
      progress.count({ files: 1, bytes: 5, requests: 2 });
      progress.item(`file ${index}`);
    }
    await clock.advance(PROGRESS_INTERVAL_MS);
    await clock.advance(5 * PROGRESS_INTERVAL_MS);
    progress.count({ deduplicatedBytes: 7, transferredNodes: 1, transferredBytes: 9 });
    progress.done('abc');
    const counters = {
      files: 1000,
      bytes: 5000,
      deduplicatedBytes: 0,
      transferredNodes: 0,
      transferredBytes: 0,
      requests: 2000,
    };
    const last = { ...counters, deduplicatedBytes: 7, transferredNodes: 1, transferredBytes: 9 };
    const where = { phase: 'transfer', totals: { files: 1000, bytes: 5000 }, item: 'file 999' } as const;
    const endedAt = startedAt + 6 * PROGRESS_INTERVAL_MS;
    expect(events).toEqual([
      { type: 'start', at: startedAt, job: 'push', subject: './tree' },
      { type: 'progress', at: startedAt + PROGRESS_INTERVAL_MS, counters, ...where },
      { type: 'progress', at: endedAt, counters: last, ...where },
      { type: 'done', at: endedAt, elapsedMs: endedAt - startedAt, counters: last, result: 'abc' },
    ]);
    expect(clock.runningTimers).toBe(0);
  });

  test('an item is named only when it is told', async () => {
    const { clock, events, progress } = start();
    const named: number[] = [];
    for (let index = 0; index < 1000; index += 1) {
      progress.item(() => {
        named.push(index);
        return `file ${index}`;
      });
    }
    await clock.advance(PROGRESS_INTERVAL_MS);
    expect(named).toEqual([999]);
    expect(events.at(-1)).toMatchObject({ type: 'progress', item: 'file 999' });
    progress.done();
  });

  test('warnings come at once, failures end the job', () => {
    const { clock, events, progress } = start();
    progress.warn('a socket was left out');
    progress.fail('the disk is full');
    expect(kinds(events)).toEqual(['start', 'warning', 'progress', 'failed']);
    expect(events.at(-1)).toMatchObject({ message: 'the disk is full', elapsedMs: 0 });
    expect(clock.runningTimers).toBe(0);
  });
});

describe('stalls', () => {
  test('are named with the narrowest cause after 7.5 seconds, and again, until something moves', async () => {
    const { clock, events, progress } = start();
    progress.waitFor('uploading');
    const endWait = progress.waitFor('the server asked to wait');
    await clock.advance(7_400);
    expect(kinds(events)).toEqual(['start', 'progress']);
    const movedAt = events[1]?.at as number;
    await clock.advance(400);
    expect(events.at(-1)).toMatchObject({
      type: 'stall',
      sinceAt: movedAt,
      cause: 'the server asked to wait',
    });
    endWait();
    await clock.advance(8_200);
    expect(events.at(-1)).toMatchObject({ type: 'stall', sinceAt: movedAt, cause: 'uploading' });
    progress.count({ transferredBytes: 1 });
    await clock.advance(PROGRESS_INTERVAL_MS);
    expect(kinds(events)).toEqual(['start', 'progress', 'stall', 'stall', 'resumed', 'progress']);
    const resumed = events.find((event) => event.type === 'resumed');
    expect(resumed?.stalledMs).toBe(clock.now() - movedAt);
    progress.done();
  });

  test('are told a minute after the last movement, which is when a quiet job speaks', async () => {
    const { clock, events, progress } = start();
    progress.count({ bytes: 1 });
    await clock.advance(PROGRESS_INTERVAL_MS);
    const movedAt = events.at(-1)?.at as number;
    progress.waitFor('no answer');
    await clock.advance(60_000);
    const told = events.flatMap((event) => (event.type === 'stall' ? [event.at - movedAt] : []));
    expect(told).toHaveLength(8);
    expect(told.at(-1)).toBe(60_000);
    progress.done();
  });

  test('requests alone are no movement: a stalled job sends them too', async () => {
    const { clock, events, progress } = start();
    progress.item('a/b');
    for (let second = 0; second < 11; second += 1) {
      progress.count({ requests: 1 });
      await clock.advance(1_000);
    }
    expect(events.find((event) => event.type === 'stall')).toMatchObject({ cause: 'still working on a/b' });
    progress.done();
  });

  test('a job whose output is read slowly stalls on what it waits for alone, from then on', async () => {
    const { clock, events, progress } = start({ stallsOnWaitsOnly: true });
    await clock.advance(60_000);
    progress.waitFor('no answer');
    await clock.advance(7_200);
    expect(kinds(events)).not.toContain('stall');
    await clock.advance(1_000);
    expect(events.at(-1)).toMatchObject({ type: 'stall', cause: 'no answer' });
    progress.done();
  });

  test('a job that moves now and then never stalls', async () => {
    const { clock, events, progress } = start();
    for (let step = 0; step < 5; step += 1) {
      progress.count({ bytes: 1 });
      await clock.advance(7_000);
    }
    expect(kinds(events)).not.toContain('stall');
    progress.done();
  });
});

describe('time in which the process did not run', () => {
  test('is no stall, and all that follows is told as if it had not been', async () => {
    const { clock, events, progress } = start();
    progress.waitFor('no answer');
    await clock.advance(5_000);
    const movedAt = events[1]?.at as number;
    clock.jump(3_600_000);
    await clock.advance(2_000);
    expect(kinds(events)).toEqual(['start', 'progress']);
    await clock.advance(1_000);
    expect(events.at(-1)).toMatchObject({ type: 'stall', sinceAt: movedAt + 3_600_000 });
    progress.done();
  });

  test('is known at once, once only, and a busy process has none', async () => {
    const { clock, progress } = start();
    clock.jump(1_500);
    await clock.advance(10_000);
    expect(progress.stoppedMs?.()).toBe(0);
    clock.jump(600_000);
    expect(progress.stoppedMs?.()).toBe(600_000 - PROGRESS_INTERVAL_MS);
    await clock.advance(10_000);
    expect(progress.stoppedMs?.()).toBe(600_000 - PROGRESS_INTERVAL_MS);
    progress.done();
  });
});

describe('a job that can never end', () => {
  function startWatched(): { clock: ManualClock; hangs: JobHangError[]; progress: RunningProgress } {
    const clock = new ManualClock();
    const hangs: JobHangError[] = [];
    const onHang = (error: JobHangError): void => void hangs.push(error);
    const progress = startProgress({ job: 'pull', subject: 'x', onEvent: () => undefined, onHang, clock });
    return { clock, hangs, progress };
  }
  const tickFor = async (clock: ManualClock, ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += PROGRESS_INTERVAL_MS)
      await clock.advance(PROGRESS_INTERVAL_MS);
  };

  test('is told once, 30 s after the last sign of life', async () => {
    const { clock, hangs, progress } = startWatched();
    progress.phase('transfer');
    progress.item('docs/a.txt');
    await tickFor(clock, 30_000);
    expect(hangs).toEqual([]);
    await tickFor(clock, 60_000);
    expect(hangs.map(({ message }) => message)).toEqual([
      'the job hangs: no request, no file and no stream is under way (phase transfer, last at docs/a.txt)',
    ]);
    progress.fail('hung');
  });

  test('is none that waits for something, moves, or was only stopped with its clock', async () => {
    const { clock, hangs, progress } = startWatched();
    const answered = progress.waitFor('no answer yet');
    await tickFor(clock, 300_000);
    answered();
    await tickFor(clock, 20_000);
    progress.expect({ files: 7 });
    await tickFor(clock, 20_000);
    // Shorter than a tick.
    progress.waitFor('a quick answer')();
    await tickFor(clock, 20_000);
    progress.count({ requests: 1 });
    clock.jump(3_600_000);
    await tickFor(clock, 20_000);
    expect(hangs).toEqual([]);
    progress.done();
  });
});
