/** Ranges of MiB that are read whole because their caller has the memory: the same bytes, or else a stream. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import {
  type ContentCaller,
  ContentDamaged,
  ContentLost,
  type ContentStore,
  type StoredObject,
  StoreUnavailable,
} from '../../core/ports.ts';
import { newGeneration, SPACE, sampleNode } from '../contract/samples.ts';
import { S3_LIMITS } from './limits.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, type StandInAnswer, startStandIn } from './test/stand-in-store.ts';

const MIB = 1024 * 1024;
const SIZE = 3 * MIB;
/** As in service, but for the pause: a busy machine may keep this process waiting for seconds. */
const LIMITS = { retryPauseMs: 1 };
/** For the test that waits for it. */
const STALL_MS_MAX = 800;
/** What a caller who left is not kept for: much less than the silence of a store is borne. */
const LEAVING_MS_MAX = S3_LIMITS.stallMsMax / 2;

let standIn: StandIn;
let store: ContentStore;
let object: StoredObject;
let node: Uint8Array;

beforeEach(async () => {
  standIn = await startStandIn();
  store = await openStore(configOf(standIn.bucket, { limits: LIMITS }));
  const sample = sampleNode(SIZE, 1);
  node = sample.node;
  const generation = newGeneration();
  await putDirectly(store, generation, node);
  const inspected = await store.inspect(SPACE, generation, sample.hash, { nodeBytesMax: 32 * MIB });
  if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('the sample is no good');
  const { integrity } = inspected.evidence;
  object = { space: SPACE, generation, canonicalSize: node.length, integrity };
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

/** What a caller was asked, and its way to leave. */
function makeCaller(hasMemory: boolean) {
  const asked: number[] = [];
  const gone = new AbortController();
  const caller: ContentCaller = {
    mayGather(length) {
      asked.push(length);
      return hasMemory;
    },
    signal: gone.signal,
  };
  return { caller, asked, leave: () => gone.abort() };
}

const open = (caller: ContentCaller, start = 0, end = node.length) =>
  store.open(object, start, end, () => undefined, caller);

async function bytesOf(body: BodyInit): Promise<Uint8Array> {
  return new Response(body).bytes();
}

/** The next read of the object is answered by `fault`; later ones well. */
function breakOnce(fault: (answer: StandInAnswer) => StandInAnswer): void {
  let isBroken = false;
  standIn.intruder = (seen, answer) => {
    if (isBroken || seen.method !== 'GET' || !seen.key.endsWith(object.generation)) return answer();
    isBroken = true;
    return fault(answer());
  };
}

describe('a range of MiB', () => {
  test.each([
    [0, SIZE],
    [1, SIZE - 1],
    [MIB, 2 * MIB + 1],
  ])('[%d, %d) comes whole where there is memory, else as a stream', async (start, end) => {
    for (const hasMemory of [true, false]) {
      const { caller, asked } = makeCaller(hasMemory);
      const { body } = await open(caller, start, end);
      expect(body).toBeInstanceOf(hasMemory ? Blob : ReadableStream);
      expect(asked).toEqual([end - start]);
      expect(Buffer.compare(await bytesOf(body as BodyInit), node.subarray(start, end))).toBe(0);
    }
  });

  test('of up to 1 MiB nobody is asked', async () => {
    const { caller, asked } = makeCaller(false);
    const { body } = await open(caller, 0, MIB);
    expect(body).toBeInstanceOf(Uint8Array);
    expect(asked).toEqual([]);
  });
});

describe('a store that does not send it in one go', () => {
  test.each<[string, (answer: StandInAnswer) => StandInAnswer]>([
    ['breaks off', (answer) => ({ ...answer, breakOff: { afterBytes: MIB, how: 'end' } })],
    ['falls silent', (answer) => ({ ...answer, breakOff: { afterBytes: MIB, how: 'hang' } })],
    ['does not say the length', (answer) => ({ ...answer, isChunked: true })],
  ])('%s: the range comes as a stream, every byte of it', async (_, fault) => {
    await store.close();
    store = await openStore(configOf(standIn.bucket, { limits: { ...LIMITS, stallMsMax: STALL_MS_MAX } }));
    breakOnce(fault);
    const { body } = await open(makeCaller(true).caller);
    expect(body).toBeInstanceOf(ReadableStream);
    expect(Buffer.compare(await bytesOf(body as BodyInit), node)).toBe(0);
  });

  test('refuses before the body: tried again, and whole', async () => {
    breakOnce(() => errorAnswer(503, 'SlowDown'));
    expect((await open(makeCaller(true).caller)).body).toBeInstanceOf(Blob);
  });
});

describe('proof is the same as for a stream', () => {
  test('another object under the key is damage, none is loss', async () => {
    const key = [...standIn.objects.keys()].find((each) => each.endsWith(object.generation)) as string;
    const stored = standIn.objects.get(key);
    if (stored === undefined) throw new Error('the sample is not there');
    standIn.objects.set(key, { ...stored, etag: '"other"' });
    await expect(open(makeCaller(true).caller)).rejects.toBeInstanceOf(ContentDamaged);
    standIn.objects.delete(key);
    await expect(open(makeCaller(true).caller)).rejects.toBeInstanceOf(ContentLost);
  });
});

test('a caller that leaves ends the request, and no other is made', async () => {
  let reads = 0;
  standIn.intruder = (seen, answer) => {
    if (seen.method !== 'GET' || !seen.key.endsWith(object.generation)) return answer();
    reads += 1;
    return { ...answer(), breakOff: { afterBytes: MIB, how: 'hang' } };
  };
  const { caller, leave } = makeCaller(true);
  const opening = open(caller).then(
    () => undefined,
    (error) => error,
  );
  while (reads === 0) await Bun.sleep(1);
  await Bun.sleep(50);
  leave();
  const leftAt = performance.now();
  expect(await opening).toBeInstanceOf(StoreUnavailable);
  expect(performance.now() - leftAt).toBeLessThan(LEAVING_MS_MAX);
  expect(reads).toBe(1);
});
