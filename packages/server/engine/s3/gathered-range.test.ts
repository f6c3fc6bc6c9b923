/** A piece of an object is read by one request: the bytes are the same in whatever parts the store sends them. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { newGeneration, SPACE, sampleNode } from '../test/samples.ts';
import { S3_LIMITS } from './limits.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, type StandInAnswer, startStandIn } from './test/stand-in-store.ts';

/** As in service, but for the pause: a busy machine may keep this process waiting for seconds. */
const LIMITS = { retryPauseMs: 1 };
/** For the test that waits for it: a busy machine may stand still for a second. */
const STALL_MS_MAX = 3000;

let standIn: StandIn;
let store: ContentStore;
let object: StoredObject;
let node: Uint8Array;

beforeEach(async () => {
  standIn = await startStandIn();
  store = await openStore(configOf(standIn.bucket, { limits: LIMITS }));
  const sample = sampleNode(2 * MIB_BYTES - 1000, 1);
  node = sample.node;
  const generation = newGeneration();
  await putDirectly(store, generation, node);
  const inspected = await store.inspect(SPACE, generation, sample.hash, { nodeBytesMax: 32 * MIB_BYTES });
  if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('the sample is no good');
  const { integrity } = inspected.evidence;
  object = { space: SPACE, generation, canonicalSize: node.length, integrity };
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

/** The next read of the object is answered by `fault`; later ones well. */
function breakOnce(fault: (answer: StandInAnswer) => StandInAnswer): void {
  let isBroken = false;
  standIn.intruder = (seen, answer) => {
    if (isBroken || seen.method !== 'GET' || !seen.key.endsWith(object.generation)) return answer();
    isBroken = true;
    return fault(answer());
  };
}

const reads = (): number =>
  standIn.seen.filter(({ method, key }) => method === 'GET' && key.endsWith(object.generation)).length;

test('is one request if nothing fails', async () => {
  standIn.seen.length = 0;
  expect(Buffer.compare(await store.read(object, 5, node.length), node.subarray(5))).toBe(0);
  expect(reads()).toBe(1);
});

describe('a store that sends the range in parts', () => {
  test.each<[string, (answer: StandInAnswer) => StandInAnswer]>([
    ['breaks off', (answer) => ({ ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'end' } })],
    ['falls silent', (answer) => ({ ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'hang' } })],
    ['does not say the length', (answer) => ({ ...answer, isChunked: true })],
    ['refuses', () => errorAnswer(503, 'SlowDown')],
  ])('%s: every byte comes all the same', async (_, fault) => {
    await store.close();
    store = await openStore(configOf(standIn.bucket, { limits: { ...LIMITS, stallMsMax: STALL_MS_MAX } }));
    standIn.seen.length = 0;
    breakOnce(fault);
    expect(Buffer.compare(await store.read(object, 0, node.length), node)).toBe(0);
    expect(reads()).toBe(2);
  });
});

test('nobody waits any more: the request ends, and no other is made', async () => {
  standIn.seen.length = 0;
  breakOnce((answer) => ({ ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'hang' } }));
  const gone = new AbortController();
  const reading = store.read(object, 0, node.length, { signal: gone.signal }).catch((error) => error);
  while (standIn.openConnections === 0 || reads() === 0) await Bun.sleep(1);
  await Bun.sleep(50);
  gone.abort();
  const leftAt = performance.now();
  expect(await reading).toBeInstanceOf(StoreUnavailable);
  // Much less than the longest silence that is tolerated.
  expect(performance.now() - leftAt).toBeLessThan(S3_LIMITS.stallMsMax / 2);
  expect(reads()).toBe(1);
});

test('a read that needs no bytes asks for one of them, whatever the range', async () => {
  standIn.seen.length = 0;
  for (const [start, end] of [
    [0, node.length],
    [7, 7],
    [0, 0],
  ] as const) {
    await store.prove(object, start, end);
  }
  expect(standIn.seen.map(({ headers }) => headers.range)).toEqual(['bytes=0-0', 'bytes=6-6', 'bytes=0-0']);
});
