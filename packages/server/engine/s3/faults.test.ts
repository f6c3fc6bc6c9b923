/** A store that fails, hangs and lies, at each step of a read, a validation and a delete. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { newGeneration, readObject, SPACE, sampleNode } from '../test/samples.ts';
import type { S3Limits } from './limits.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import {
  errorAnswer,
  etagOf,
  type SeenRequest,
  type StandIn,
  type StandInAnswer,
  startStandIn,
} from './test/stand-in-store.ts';

const NODE_LIMITS = { nodeBytesMax: 32 * MIB_BYTES };
/** Times as in service: a busy machine may keep this process waiting for seconds. */
const QUICK: Partial<S3Limits> = { attemptsMax: 4, retryPauseMs: 1 };
/** For the tests that wait for them. */
const IMPATIENT: Partial<S3Limits> = { headMsMax: 600, stallMsMax: 400 };

let standIn: StandIn;
let store: ContentStore;

beforeEach(async () => {
  standIn = await startStandIn();
  store = await open();
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

async function open(limits: Partial<S3Limits> = {}): Promise<ContentStore> {
  return openStore(configOf(standIn.bucket, { limits: { ...QUICK, ...limits } }));
}

async function reopen(limits: Partial<S3Limits>): Promise<void> {
  await store.close();
  store = await open(limits);
}

interface Sample {
  readonly object: StoredObject;
  readonly node: Uint8Array;
  readonly hash: string;
  readonly key: string;
}

async function putSample(size: number): Promise<Sample> {
  const { hash, node } = sampleNode(size, size);
  const generation = newGeneration();
  await putDirectly(store, generation, node);
  const inspected = await store.inspect(SPACE, generation, hash, NODE_LIMITS);
  if (!inspected.found || inspected.evidence.verdict !== 'good')
    throw new Error('the sample was turned down');
  const { integrity } = inspected.evidence;
  const object = { space: SPACE, generation, canonicalSize: node.length, integrity };
  return { object, node, hash, key: keyOf(generation) };
}

const keyOf = (generation: Generation): string =>
  [...standIn.objects.keys()].find((key) => key.endsWith(generation)) as string;

const read = (object: StoredObject, start?: number): Promise<Uint8Array> => readObject(store, object, start);

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );

/** The next `times` requests for the object, or all, are answered by `fault`. */
function breakReads(
  key: string,
  fault: (answer: StandInAnswer, seen: SeenRequest) => StandInAnswer,
  times = 1,
) {
  let left = times;
  standIn.intruder = (seen, answer) => {
    if (seen.key !== key || seen.method !== 'GET' || left === 0) return answer();
    left -= 1;
    return fault(answer(), seen);
  };
}

const requestsFor = (key: string): SeenRequest[] => standIn.seen.filter((seen) => seen.key === key);

type Fault = (answer: StandInAnswer, object: StoredObject) => StandInAnswer;

/** One that is one piece, and one that is several. */
const SIZES = [200_000, 3 * MIB_BYTES] as const;

describe('a passing fault is tried again, and the result is whole', () => {
  const faults: readonly (readonly [string, Fault])[] = [
    ['500', () => errorAnswer(500, 'InternalError')],
    ['503', () => ({ status: 503, body: '<html>proxy' })],
    ['429', () => errorAnswer(429, 'SlowDown')],
    ['no answer', (answer) => ({ ...answer, breakOff: { afterBytes: -1, how: 'hang' } })],
    ['a closed connection', (answer) => ({ ...answer, breakOff: { afterBytes: -1, how: 'end' } })],
    ['nothing after the head', (answer) => ({ ...answer, breakOff: { afterBytes: 0, how: 'hang' } })],
    ['a hang amid the body', (answer) => ({ ...answer, breakOff: { afterBytes: 10_000, how: 'hang' } })],
    ['an end amid the body', (answer) => ({ ...answer, breakOff: { afterBytes: 10_000, how: 'end' } })],
    ['a body that is too short', (answer) => ({ ...answer, body: bodyOf(answer).subarray(0, -1) })],
    [
      'a body that is too long',
      (answer) => ({ ...answer, body: Buffer.concat([bodyOf(answer), Buffer.of(1)]) }),
    ],
    [
      'a body of no stated length that is too short',
      (answer) => ({ ...answer, isChunked: true, body: bodyOf(answer).subarray(0, -1) }),
    ],
    [
      'the range beside',
      (answer, { canonicalSize }) => ({
        ...answer,
        headers: { ...answer.headers, 'content-range': `bytes 6-${canonicalSize - 1}/${canonicalSize}` },
      }),
    ],
    ['the whole instead of a range', (answer) => ({ ...answer, status: 200 })],
    [
      'a range without its ETag',
      ({ headers = {}, ...answer }) => ({ ...answer, headers: withoutEtag(headers) }),
    ],
    ['404 by something that is no S3', () => ({ status: 404, body: '<html>not here</html>' })],
  ];
  for (const [name, fault] of faults) {
    test(`${name}, once`, async () => {
      for (const size of SIZES) {
        const { object, node, key } = await putSample(size);
        await reopen(IMPATIENT);
        breakReads(key, (answer) => fault(answer, object), 1);
        expect(Buffer.compare(await read(object, 5), node.subarray(5))).toBe(0);
      }
    });

    test(`${name}, always: an error, never a whole answer, and no proof`, async () => {
      for (const size of SIZES) {
        const { object, key } = await putSample(size);
        await reopen(IMPATIENT);
        breakReads(key, (answer) => fault(answer, object), -1);
        expect(await failureOf(read(object, 5))).toBeInstanceOf(StoreUnavailable);
      }
    });
  }

  test('a piece that breaks off continues there, for the same ETag', async () => {
    const { object, node, key } = await putSample(2 * MIB_BYTES - 1000);
    standIn.seen.length = 0;
    breakReads(key, (answer) => ({ ...answer, breakOff: { afterBytes: 700_000, how: 'end' } }), 3);
    expect(Buffer.compare(await read(object), node)).toBe(0);
    const starts = requestsFor(key).map(({ headers }) => Number(/\d+/.exec(headers.range ?? '')?.[0]));
    // Once in one go, then piece by piece.
    expect(starts.slice(0, 2)).toEqual([0, 0]);
    expect(starts.length).toBe(4);
    expect(starts[2]).toBeGreaterThanOrEqual(64 * 1024);
    expect(starts[3]).toBeGreaterThan(starts[2] as number);
    for (const { headers } of requestsFor(key)) expect(headers['if-match']).toBe(etagOf(node));
  });

  test('a body longer than the range that gives no length is never passed on as complete', async () => {
    const { object, key } = await putSample(3 * MIB_BYTES);
    const longer = (answer: StandInAnswer) => ({
      ...answer,
      isChunked: true,
      body: Buffer.concat([bodyOf(answer), Buffer.alloc(10)]),
    });
    const longerLater = (answer: StandInAnswer) => ({
      ...answer,
      isChunked: true,
      afterthought: Buffer.alloc(10),
    });
    for (const fault of [longer, longerLater]) {
      breakReads(key, fault, -1);
      expect(await failureOf(read(object))).toBeInstanceOf(StoreUnavailable);
    }
  });

  test('a validation that breaks off begins anew', async () => {
    const { object, hash, key } = await putSample(2 * MIB_BYTES);
    breakReads(key, (answer) => ({ ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'end' } }), 2);
    const inspected = await store.inspect(SPACE, object.generation, hash, NODE_LIMITS);
    expect(inspected).toMatchObject({ found: true, evidence: { verdict: 'good' } });
    breakReads(key, (answer) => ({ ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'end' } }), -1);
    const failure = await failureOf(store.inspect(SPACE, object.generation, hash, NODE_LIMITS));
    expect(failure).toBeInstanceOf(StoreUnavailable);
  });
});

describe('proof', () => {
  test('a swapped object is damaged, before the first byte and amid a read', async () => {
    for (const size of SIZES) {
      const { object, node, key } = await putSample(size);
      swap(key, node.slice().fill(1, 100));
      expect(await failureOf(read(object))).toBeInstanceOf(ContentDamaged);
      expect(await failureOf(store.verify(object, 'f'.repeat(64)))).toBeInstanceOf(ContentDamaged);
    }
    const { object, node, key } = await putSample(4 * MIB_BYTES);
    breakReads(key, (answer) => {
      swap(key, node.slice().fill(1, 100));
      return { ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'end' } };
    });
    expect(await failureOf(read(object))).toBeInstanceOf(ContentDamaged);
  });

  test('a store that ignores If-Match is caught by the ETag it sends', async () => {
    const { object, node, key } = await putSample(200_000);
    standIn.flaws = { ifMatch: 'ignored' };
    swap(key, node.slice().fill(1, 100));
    expect(await failureOf(read(object))).toBeInstanceOf(ContentDamaged);
  });

  test('an object that vanishes amid a read is lost', async () => {
    const { object, key } = await putSample(4 * MIB_BYTES);
    breakReads(key, (answer) => {
      standIn.objects.delete(key);
      return { ...answer, breakOff: { afterBytes: MIB_BYTES, how: 'end' } };
    });
    expect(await failureOf(read(object))).toBeInstanceOf(ContentLost);
  });

  test('412 and 404 prove nothing when a second look contradicts them', async () => {
    const { object, key } = await putSample(200_000);
    for (const [status, code] of [
      [412, 'PreconditionFailed'],
      [404, 'NoSuchKey'],
      [416, 'InvalidRange'],
    ] as const) {
      breakReads(key, () => errorAnswer(status, code), -1);
      expect(await failureOf(read(object))).toBeInstanceOf(StoreUnavailable);
    }
  });

  test('nothing counts as lost in a wrong or unhealthy bucket', async () => {
    const { object, hash, key } = await putSample(200_000);
    standIn.objects.delete(key);
    const marker = standIn.objects.get('holdfast-store');
    if (marker === undefined) throw new Error('no marker');
    const absences: (() => Promise<unknown>)[] = [() => read(object), () => store.verify(object, hash)];
    const cases: (() => void)[] = [
      () => standIn.objects.delete('holdfast-store'),
      () => standIn.objects.set('holdfast-store', { ...marker, bytes: Buffer.from('another') }),
      () => {
        standIn.intruder = (seen, answer) =>
          seen.key === 'holdfast-store' ? errorAnswer(500, 'X') : answer();
      },
      () => {
        standIn.intruder = () => errorAnswer(404, 'NoSuchBucket');
      },
    ];
    for (const spoil of cases) {
      spoil();
      for (const absence of absences) expect(await failureOf(absence())).toBeInstanceOf(StoreUnavailable);
      standIn.intruder = undefined;
      standIn.objects.set('holdfast-store', marker);
    }
    for (const absence of absences) expect(await failureOf(absence())).toBeInstanceOf(ContentLost);
  });

  test('an upload counts as absent, and a delete as done, only in the right bucket', async () => {
    const { object, hash, key } = await putSample(1000);
    await reopen({ healthMs: 0 });
    const marker = standIn.objects.get('holdfast-store');
    standIn.objects.delete('holdfast-store');
    const inspecting = store.inspect(SPACE, newGeneration(), hash, NODE_LIMITS);
    expect(await failureOf(inspecting)).toBeInstanceOf(StoreUnavailable);
    const { deleted, failure } = await store.delete(SPACE, [object.generation]);
    expect(deleted.size).toBe(0);
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect(standIn.objects.has(key)).toBe(true);
    if (marker !== undefined) standIn.objects.set('holdfast-store', marker);
    expect((await store.delete(SPACE, [object.generation])).failure).toBeUndefined();
  });

  test('a wrong digest is read once more before it counts', async () => {
    const { object, node, hash, key } = await putSample(MIB_BYTES);
    const flipped = Buffer.from(node).fill(9, 1000, 1001);
    breakReads(key, (answer) => ({ ...answer, body: flipped }), 1);
    await store.verify(object, hash);
    breakReads(key, (answer) => ({ ...answer, body: flipped }), -1);
    expect(await failureOf(store.verify(object, hash))).toBeInstanceOf(ContentDamaged);
  });
});

describe('validation', () => {
  test('an object over the limit is judged by its length alone', async () => {
    const { node, hash } = sampleNode(24 * MIB_BYTES, 1);
    const generation = newGeneration();
    await putDirectly(store, generation, node);
    const before = standIn.sentBytes;
    const inspected = await store.inspect(SPACE, generation, hash, { nodeBytesMax: node.length - 1 });
    expect(inspected).toMatchObject({ found: true, evidence: { verdict: 'bad', code: 'NODE_TOO_LARGE' } });
    await Bun.sleep(100);
    expect(standIn.sentBytes - before).toBeLessThan(12 * MIB_BYTES);
  });

  test('bytes are judged in order: digest, then format', async () => {
    const junk = new Uint8Array(1000).fill(7);
    for (const [bytes, hash, code] of [
      [junk, 'f'.repeat(64), 'NODE_DIGEST_MISMATCH'],
      [junk, digestOf(junk), 'INVALID_CANONICAL_NODE'],
      [new Uint8Array(0), digestOf(new Uint8Array(0)), 'INVALID_CANONICAL_NODE'],
      [junk.subarray(0, 10), digestOf(junk.subarray(0, 10)), 'INVALID_CANONICAL_NODE'],
    ] as const) {
      const generation = newGeneration();
      await putDirectly(store, generation, bytes);
      const inspected = await store.inspect(SPACE, generation, hash, NODE_LIMITS);
      expect(inspected).toMatchObject({ found: true, evidence: { verdict: 'bad', code } });
    }
  });

  test('an ETag that cannot be sent in a later request validates nothing', async () => {
    const { object, hash, key } = await putSample(1000);
    for (const etag of ['W/"abc"', 'abc', '', `"${'a'.repeat(300)}"`]) {
      breakReads(key, (answer) => ({ ...answer, headers: { etag } }), -1);
      const failure = await failureOf(store.inspect(SPACE, object.generation, hash, NODE_LIMITS));
      expect(failure).toBeInstanceOf(StoreUnavailable);
    }
  });
});

function swap(key: string, bytes: Uint8Array): void {
  standIn.objects.set(key, { bytes: Buffer.from(bytes), etag: etagOf(bytes), isPublic: false });
}

function bodyOf(answer: StandInAnswer): Buffer {
  return Buffer.from((answer.body ?? new Uint8Array(0)) as Uint8Array);
}

function withoutEtag({ etag: _, ...headers }: Readonly<Record<string, string>>): Record<string, string> {
  return headers;
}

function digestOf(bytes: Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(bytes).digest('hex');
}
