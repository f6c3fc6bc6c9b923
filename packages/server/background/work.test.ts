/** Turns at background work over the real embedded engine: one process at a time, and the next resumes the walk. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { pino } from 'pino';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import { until } from '../../../test/support/until.ts';
import type { Core } from '../core/core.ts';
import type { ContentRow, Generation } from '../core/model.ts';
import type { ScrubPosition, Walk } from '../core/upkeep-ports.ts';
import { type HandlerWorld, openHandlerWorld } from '../http/test/handler-fixture.ts';
import type { BackgroundTask, BackgroundTurns } from './turns.ts';
import { NO_TURNS } from './turns.ts';
import { type BackgroundPace, DISK_PACE, nodesOfNextScrub, S3_PACE, startBackgroundWork } from './work.ts';

const NODES = 20;
const NODES_PER_STEP = 8;
const TEST_MS_MAX = 300_000;

let world: HandlerWorld;
beforeAll(async () => {
  world = await openHandlerWorld();
  for (let seed = 0; seed < NODES; seed += 1) await world.store(seededBytes(100, seed));
});
afterAll(() => world.close());

/** The real core. `walks` records where each step of the scrub began; `sweeps` counts sweeps. */
function watchedCore() {
  const walks: (ScrubPosition | undefined)[] = [];
  let sweeps = 0;
  const metadata = new Proxy(world.core.metadata, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === 'page' && args[0] === 'nodesToScrub') walks.push((args[1] as Walk).after);
        if (name === 'page' && args[0] === 'spacesToSweep') sweeps += 1;
        return (value as (...given: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const core: Core = { ...world.core, metadata };
  return { core, walks, sweeps: () => sweeps };
}

/** One turn per task, shared by several processes like rows of a database. */
function makeSharedTurns() {
  const holders = new Map<BackgroundTask, string>();
  const positions = new Map<BackgroundTask, string | undefined>();
  const of = (holder: string): BackgroundTurns => ({
    async take(task) {
      const current = holders.get(task);
      if (current !== undefined && current !== holder) return undefined;
      holders.set(task, holder);
      return { position: positions.get(task) };
    },
    async note(task, position) {
      if (holders.get(task) === holder) positions.set(task, position);
    },
    async release() {
      for (const [task, current] of holders) if (current === holder) holders.delete(task);
    },
  });
  return { of, holders };
}

const log = pino({ level: 'silent' });
const pace: BackgroundPace = {
  ...DISK_PACE,
  sweepIntervalMs: 20,
  scrubIntervalMs: 200,
  scrubNodesMax: 8,
  retryMs: 20,
  askMs: 20,
};

test(
  'another process continues the scrub where the first process ended',
  async () => {
    const turns = makeSharedTurns();
    const first = watchedCore();
    const second = watchedCore();
    const one = startBackgroundWork({ core: first.core, turns: turns.of('one'), pace, log });
    await until(() => first.walks.length >= 1);
    await one.stop();
    expect(turns.holders.size).toBe(0);
    const steps = first.walks.length;
    expect(steps).toBeLessThan(NODES / NODES_PER_STEP);
    const two = startBackgroundWork({ core: second.core, turns: turns.of('two'), pace, log });
    await until(() => second.walks.length >= 1);
    await two.stop();
    expect(second.walks[0]).toBeDefined();
    expect(first.walks).not.toContain(second.walks[0]);
  },
  TEST_MS_MAX,
);

test(
  'bytes that were too young for one walk of the scrub are read by one that follows soon',
  async () => {
    await world.store(seededBytes(100, NODES));
    const { core } = watchedCore();
    const read = new Set<Generation>();
    const content = new Proxy(core.content, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown;
        if (name === 'verifyInline') return ({ generation }: ContentRow) => read.add(generation);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const turns = makeSharedTurns().of('one');
    const seldom = { ...pace, scrubIntervalMs: 1, scrubAgeMsMin: 1000, scrubPauseMs: 10 * TEST_MS_MAX };
    const work = startBackgroundWork({ core: { ...core, content }, turns, pace: seldom, log });
    await until(() => read.size === NODES + 1);
    await work.stop();
  },
  TEST_MS_MAX,
);

test(
  'a process without the turn does nothing, the process with it scrubs and sweeps',
  async () => {
    const turns = makeSharedTurns();
    const busy = watchedCore();
    const idle = watchedCore();
    const never = watchedCore();
    const loops = [startBackgroundWork({ core: busy.core, turns: turns.of('busy'), pace, log })];
    await until(() => busy.walks.length >= 1 && busy.sweeps() >= 1);
    loops.push(startBackgroundWork({ core: idle.core, turns: turns.of('idle'), pace, log }));
    loops.push(startBackgroundWork({ core: never.core, turns: NO_TURNS, pace, log }));
    const sweeps = busy.sweeps();
    await until(() => busy.sweeps() > sweeps + 2);
    for (const loop of loops) await loop.stop();
    expect([idle.walks.length, idle.sweeps(), never.walks.length, never.sweeps()]).toEqual([0, 0, 0, 0]);
  },
  TEST_MS_MAX,
);

test(
  'the epoch of the bucket is moved on, and rows that are put back behind it under a running server are not swept',
  async () => {
    let bucket = 0;
    const withEpoch = () => {
      const watched = watchedCore();
      const epoch = {
        read: async () => bucket,
        write: async (next: number) => {
          bucket = next;
        },
      };
      const content = new Proxy(watched.core.content, {
        get(target, name) {
          if (name === 'epoch') return epoch;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
      return { ...watched, core: { ...watched.core, content } };
    };
    const often = { ...pace, epochIntervalMs: 0 };
    const before = withEpoch();
    const sound = startBackgroundWork({
      core: before.core,
      turns: makeSharedTurns().of('one'),
      pace: often,
      log,
    });
    await until(() => bucket >= 3 && before.sweeps() >= 2);
    await sound.stop();

    await world.core.metadata.settle('note', { name: 'store-epoch', value: '1' });
    const lines: string[] = [];
    const told = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) });
    const behind = withEpoch();
    const moved = bucket;
    const outdated = startBackgroundWork({
      ...{ core: behind.core, turns: makeSharedTurns().of('two'), pace: often },
      log: told,
    });
    await until(() => lines.some((line) => line.includes('holdfast accept-restore')));
    await outdated.stop();
    expect([behind.sweeps(), bucket]).toEqual([0, moved]);
  },
  TEST_MS_MAX,
);

test('a step of the scrub has twice as many nodes as the last one while they are small and quickly read', () => {
  const next = (nodes: number, bytes: number, tookMs: number) =>
    nodesOfNextScrub(nodes, { bytes, tookMs }, DISK_PACE);
  const budget = (DISK_PACE.scrubBytesPerSecond * DISK_PACE.scrubIntervalMs) / 1000;
  expect([next(8, 0, 0), next(8, budget / 2, 25), next(200, 0, 0)]).toEqual([16, 16, 256]);
  expect([next(64, budget, 0), next(64, 0, 30), next(8, budget, 0)]).toEqual([32, 32, 8]);
  expect(nodesOfNextScrub(8, { bytes: 0, tookMs: 0 }, S3_PACE)).toBe(8);
});
