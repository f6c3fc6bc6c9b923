/** Automatic collection over the real embedded engine: which Spaces it visits, and that a failing Space delays no other. */
import { afterEach, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import type { AppRecord, RegistryStore } from '../auth/registry-store.ts';
import type { Core } from '../core/core.ts';
import { PackJudgements } from '../core/packs/judge-pack.ts';
import { NO_QUOTAS } from '../core/quotas.ts';
import { RottenNodes } from '../core/rotten-nodes.ts';
import { createSigner } from '../core/signer.ts';
import { StrayWatch } from '../core/stray-watch.ts';
import { openTemporaryEngine, type TemporaryEngine } from '../deployment/test/embedded-engine-fixture.ts';
import { unzstd } from '../engine/packed-object.ts';
import { hashAt, readyNode } from '../engine/test/samples.ts';
import { BACKGROUND_FAILURES, GC_LAST_SUCCESS } from '../metrics/server-metrics.ts';
import { JudgingTurns } from '../shares/fair-queue.ts';
import { makeCollectStep } from './collect-all.ts';
import { type BackgroundTurns, makeLocalTurns, NO_TURNS } from './turns.ts';

const EVERY_MS = 3_600_000;
const ASK_MS = 5000;
const STEPS_MAX = 50;
const log = pino({ level: 'silent' });

let engine: TemporaryEngine | undefined;
afterEach(async () => {
  await engine?.destroy();
  engine = undefined;
});

function coreOf({ metadata, content }: TemporaryEngine, changes: Partial<Core> = {}): Core {
  return {
    ...{ metadata, content, random: { bytes: (count) => randomBytes(count) } },
    signer: createSigner(randomBytes(32)),
    quotas: NO_QUOTAS,
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    settings: {
      ...{ nodeBytesMax: 1 << 26, activeUploadsMax: 100, uploadTtlMs: 60_000 },
      ...{ abandonedAfterMs: 86_400_000, rootRefHistoryMs: 86_400_000, keepReplacedMs: 0 },
    },
    ...changes,
  };
}

const registry = (apps: Readonly<Record<string, AppRecord['status']>>): RegistryStore =>
  ({
    readAll: () => Object.entries(apps).map(([appId, status]) => ({ appId, status }) as AppRecord),
  }) as unknown as RegistryStore;

async function fill({ metadata }: TemporaryEngine, appId: string, spaceId: string, nodes: number) {
  await metadata.transact({ appId, spaceId }, async (tx) => {
    for (let index = 0; index < nodes; index += 1) await tx.insert('node', readyNode(hashAt(index)));
  });
}

const count = async ({ metadata }: TemporaryEngine, appId: string, spaceId: string): Promise<number> =>
  (await metadata.readCounters({ appId, spaceId })).nodeCount;

/** Runs steps until the pause is longer than between two Spaces. */
async function runSteps(step: () => Promise<number>, isOver: () => Promise<boolean>): Promise<number[]> {
  const rests: number[] = [];
  for (let steps = 0; steps < STEPS_MAX; steps += 1) {
    rests.push(await step());
    if (await isOver()) return rests;
  }
  throw new Error(`after ${STEPS_MAX} steps it is not over`);
}

async function isFinished(turns: BackgroundTurns): Promise<boolean> {
  return (await turns.take('gc'))?.position?.includes('"isFinished":true') ?? false;
}

/** Skips the pauses between Spaces. */
function makeImpatientStep(options: Parameters<typeof makeCollectStep>[0]): () => Promise<number> {
  return () => makeCollectStep(options)();
}

test('a round collects in every Space of active Apps, and in no other', async () => {
  engine = await openTemporaryEngine();
  const opened = engine;
  for (const [app, space] of [
    ['a', 'one'],
    ['a', 'two'],
    ['asleep', 'one'],
    ['gone', 'one'],
  ] as const)
    await fill(opened, app, space, 3);
  GC_LAST_SUCCESS.set(0);
  const turns = makeLocalTurns();
  const step = makeImpatientStep({
    ...{ core: coreOf(opened), apps: registry({ a: 'active', asleep: 'suspended' }), log },
    ...{ turns, everyMs: EVERY_MS, askMs: ASK_MS },
  });
  await runSteps(step, () => isFinished(turns));
  expect(GC_LAST_SUCCESS.value).toBeGreaterThan(0);
  expect(await count(opened, 'a', 'one')).toBe(0);
  expect(await count(opened, 'a', 'two')).toBe(0);
  expect(await count(opened, 'asleep', 'one')).toBe(3);
  expect(await count(opened, 'gone', 'one')).toBe(3);
  // The round is over: nothing happens until the next round is due.
  await fill(opened, 'a', 'one', 1);
  await step();
  expect(await count(opened, 'a', 'one')).toBe(1);
});

test('a Space that fails is counted and does not hold up the others', async () => {
  engine = await openTemporaryEngine();
  const opened = engine;
  for (const space of ['one', 'two', 'three']) await fill(opened, 'a', space, 2);
  const failuresBefore = BACKGROUND_FAILURES.with({ loop: 'gc' }).value;
  const { metadata } = opened;
  const failing: Core['metadata'] = new Proxy(metadata, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      if (name !== 'transact') return value.bind(target);
      return (...args: Parameters<typeof target.transact>) => {
        if (args[0].spaceId === 'two') throw new Error('this Space fails');
        return target.transact(...args);
      };
    },
  });
  const turns = makeLocalTurns();
  const step = makeImpatientStep({
    ...{ core: coreOf(opened, { metadata: failing }), apps: registry({ a: 'active' }), log },
    ...{ turns, everyMs: EVERY_MS, askMs: ASK_MS },
  });
  await runSteps(step, () => isFinished(turns));
  expect(await count(opened, 'a', 'one')).toBe(0);
  expect(await count(opened, 'a', 'two')).toBe(2);
  expect(await count(opened, 'a', 'three')).toBe(0);
  expect(BACKGROUND_FAILURES.with({ loop: 'gc' }).value).toBe(failuresBefore + 1);
});

test('Spaces are spread out over the time of a round', async () => {
  engine = await openTemporaryEngine();
  const opened = engine;
  for (const space of ['one', 'two', 'three']) await fill(opened, 'a', space, 1);
  const options = {
    ...{ core: coreOf(opened), apps: registry({ a: 'active' }), log },
    ...{ turns: makeLocalTurns(), everyMs: 40_000, askMs: 3_600_000 },
  };
  const step = makeCollectStep(options);
  // Three Spaces, and the end of the round.
  expect(await step()).toBe(10_000);
  const stillToDo = (await count(opened, 'a', 'one')) + (await count(opened, 'a', 'two'));
  // A step that comes too early changes nothing.
  expect(await step()).toBeLessThanOrEqual(10_000);
  expect((await count(opened, 'a', 'one')) + (await count(opened, 'a', 'two'))).toBe(stillToDo);
});

test('a round goes on at the pace of the process that has the turn now', async () => {
  engine = await openTemporaryEngine();
  const opened = engine;
  for (const space of ['one', 'two', 'three']) await fill(opened, 'a', space, 1);
  const turns = makeLocalTurns();
  const options = { core: coreOf(opened), apps: registry({ a: 'active' }), log, turns, askMs: 3_600_000 };
  expect(await makeCollectStep({ ...options, everyMs: 4_000_000 })()).toBe(1_000_000);
  expect(await makeCollectStep({ ...options, everyMs: 4_000 })()).toBe(1_000);
  expect(await makeCollectStep({ ...options, everyMs: 8_000_000 })()).toBe(2_000_000);
  for (const space of ['one', 'two', 'three']) expect(await count(opened, 'a', space)).toBe(0);
  await turns.note(
    'gc',
    JSON.stringify({ startedAt: Date.now(), isFinished: false, restMs: 1e9, failed: 0 }),
  );
  expect(await makeCollectStep({ ...options, everyMs: 4_000 })()).toBe(250);
  expect(await isFinished(turns)).toBe(true);
});

test('a process without the turn collects nothing', async () => {
  engine = await openTemporaryEngine();
  await fill(engine, 'a', 'one', 1);
  const step = makeCollectStep({
    ...{ core: coreOf(engine), apps: registry({ a: 'active' }), log },
    ...{ turns: NO_TURNS, everyMs: EVERY_MS, askMs: ASK_MS },
  });
  expect(await step()).toBe(ASK_MS);
  expect(await count(engine, 'a', 'one')).toBe(1);
});

test('rounds go by the clock of the rows, and one that began in the future is not waited for', async () => {
  engine = await openTemporaryEngine();
  const opened = engine;
  const turns = makeLocalTurns();
  const options = { core: coreOf(opened), apps: registry({ a: 'active' }), log, turns, askMs: ASK_MS };
  const step = makeImpatientStep({ ...options, everyMs: EVERY_MS });
  const startedAt = async (): Promise<number> =>
    JSON.parse((await turns.take('gc'))?.position ?? '{}').startedAt;
  await runSteps(step, () => isFinished(turns));
  const first = opened.clock.now();
  expect(await startedAt()).toBe(first);
  opened.clock.set(first + EVERY_MS);
  await step();
  expect(await startedAt()).toBe(first + EVERY_MS);
  opened.clock.set(first - EVERY_MS);
  await step();
  expect(await startedAt()).toBe(first - EVERY_MS);
});
