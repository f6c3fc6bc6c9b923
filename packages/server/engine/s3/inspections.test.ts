/** One look at an uploaded object serves all who ask for it at once, and never says that what came since is not there. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { until } from '../../../../test/support/until.ts';
import type { ContentStore } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { newGeneration, SPACE, sampleNode } from '../test/samples.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, startStandIn } from './test/stand-in-store.ts';

const LIMITS = { nodeBytesMax: 32 * 1024 * 1024 };
const CALLERS = 100;

let standIn: StandIn;
let store: ContentStore;
beforeEach(async () => {
  standIn = await startStandIn();
  store = await openStore(configOf(standIn.bucket));
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

const { hash, node } = sampleNode(100_000, 1);
const readsOf = (generation: string) =>
  standIn.seen.filter(({ method, key }) => method === 'GET' && key.endsWith(generation)).length;

/** The store has looked, and its answers to reads wait until they are let go. */
function holdReads(): () => void {
  let letGo!: () => void;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  standIn.intruder = async ({ method }, answer) => {
    const told = answer();
    if (method === 'GET') await held;
    return told;
  };
  return letGo;
}

test('concurrent callers share one read, and later callers read anew', async () => {
  const generation = newGeneration();
  await putDirectly(store, generation, node);
  const inspect = () => store.inspect(SPACE, generation, hash, LIMITS);
  const letGo = holdReads();
  const asked = Array.from({ length: CALLERS }, inspect);
  await until(() => readsOf(generation) > 0);
  letGo();
  for (const inspected of await Promise.all(asked)) {
    expect(inspected).toMatchObject({ found: true, evidence: { verdict: 'good' } });
  }
  expect(readsOf(generation)).toBe(1);
  await inspect();
  expect(readsOf(generation)).toBe(2);
});

test('an upload that ended before a caller asked is found, even if an earlier look missed it', async () => {
  const generation = newGeneration();
  const inspect = () => store.inspect(SPACE, generation, hash, LIMITS);
  const letGo = holdReads();
  const before = inspect();
  await until(() => readsOf(generation) > 0);
  await putDirectly(store, generation, node);
  const after = Array.from({ length: CALLERS }, inspect);
  letGo();
  expect((await before).found).toBe(false);
  for (const { found } of await Promise.all(after)) expect(found).toBe(true);
  expect(readsOf(generation)).toBe(2);
});

test('a failure is reported to those who waited, and to nobody later', async () => {
  const generation = newGeneration();
  await putDirectly(store, generation, node);
  const inspect = () => store.inspect(SPACE, generation, hash, LIMITS);
  standIn.intruder = ({ method }, answer) => (method === 'GET' ? errorAnswer(403, 'AccessDenied') : answer());
  for (const outcome of await Promise.allSettled(Array.from({ length: CALLERS }, inspect))) {
    expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(StoreUnavailable);
  }
  standIn.intruder = undefined;
  expect((await inspect()).found).toBe(true);
});
