/** Bounds: of requests and waiting, of repetitions, of memory for slow readers; and what credentials and clocks do. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { MIB_BYTES, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { until } from '../../../../test/support/until.ts';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { EngineRefused } from '../refused.ts';
import { newGeneration, SPACE, sampleNode, urlLifeUntil } from '../test/samples.ts';
import type { S3ContentStoreConfig } from './open-s3-content-store.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, startStandIn } from './test/stand-in-store.ts';

const NODE_LIMITS = { nodeBytesMax: 64 * MIB_BYTES };
let standIn: StandIn;
let store: ContentStore | undefined;

beforeEach(async () => {
  standIn = await startStandIn();
});
afterEach(async () => {
  await store?.close();
  await standIn.close();
});

async function open({ limits, ...changes }: Partial<S3ContentStoreConfig> = {}): Promise<ContentStore> {
  await store?.close();
  const quick = { retryPauseMs: 1, ...limits };
  store = await openStore(configOf(standIn.bucket, { limits: quick, ...changes }));
  return store;
}

async function putSample(
  target: ContentStore,
  size: number,
): Promise<{ object: StoredObject; hash: string }> {
  const { hash, node } = sampleNode(size, size);
  const generation = newGeneration();
  await putDirectly(target, generation, node);
  const inspected = await target.inspect(SPACE, generation, hash, NODE_LIMITS);
  if (!inspected.found || inspected.evidence.verdict !== 'good')
    throw new Error('the sample was turned down');
  const { integrity } = inspected.evidence;
  return { object: { space: SPACE, generation, canonicalSize: node.length, integrity }, hash };
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );

/** Answers to reads of objects wait until the gate is opened. */
function gateReads(): { open: () => void; waiting: number; most: number } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const gate = { open: resolve, waiting: 0, most: 0 };
  standIn.intruder = async (seen, answer) => {
    if (!seen.key.startsWith('nodes/')) return answer();
    gate.waiting += 1;
    gate.most = Math.max(gate.most, gate.waiting);
    await promise;
    gate.waiting -= 1;
    return answer();
  };
  return gate;
}

describe('requests under way are bounded', () => {
  test('requests over the limit wait in order, and requests over the queue are refused at once', async () => {
    const target = await open({ limits: { requestsInFlightMax: 3, requestsWaitingMax: 4 } });
    const { object } = await putSample(target, 1000);
    const gate = gateReads();
    const reads = Array.from({ length: 9 }, () => target.read(object, 0, 10));
    const outcomes = Promise.allSettled(reads);
    for (const refused of reads.slice(7)) expect(await failureOf(refused)).toBeInstanceOf(StoreUnavailable);
    await until(() => gate.waiting === 3);
    gate.open();
    const settled = (await outcomes).map(({ status }) => status);
    expect(settled.filter((status) => status === 'fulfilled').length).toBe(7);
    expect(gate.most).toBe(3);
  });

  test('a wait ends, and takes no place with it', async () => {
    // With the limits of service: what is stored here may take its time.
    const { object } = await putSample(await open(), 1000);
    const target = await open({ limits: { requestsInFlightMax: 1, waitMsMax: 50 } });
    const gate = gateReads();
    const first = target.read(object, 0, 10);
    await until(() => gate.waiting === 1);
    expect(await failureOf(target.read(object, 0, 10))).toBeInstanceOf(StoreUnavailable);
    gate.open();
    await first;
    await target.read(object, 0, 10);
  });

  test('closing the store ends the requests under way', async () => {
    const target = await open();
    const { object } = await putSample(target, 1000);
    const gate = gateReads();
    const reading = failureOf(target.read(object, 0, 10));
    await until(() => gate.waiting === 1);
    await target.close();
    expect(await reading).toBeInstanceOf(StoreUnavailable);
    expect(await failureOf(target.read(object, 0, 10))).toBeInstanceOf(StoreUnavailable);
    gate.open();
  });
});

describe('an outage', () => {
  test('is not made worse by repetitions', async () => {
    const target = await open();
    const { object } = await putSample(target, 1000);
    standIn.intruder = () => errorAnswer(503, 'SlowDown');
    standIn.seen.length = 0;
    const requests = 300;
    for (let sent = 0; sent < requests; sent += 50) {
      const reads = Array.from({ length: 50 }, () => failureOf(target.read(object, 0, 10)));
      for (const failure of await Promise.all(reads)) expect(failure).toBeInstanceOf(StoreUnavailable);
    }
    expect(standIn.seen.length).toBeLessThanOrEqual(requests + 100);
    standIn.intruder = undefined;
    await target.read(object, 0, 10);
  });
});

describe('credentials', () => {
  test('that the store calls expired are renewed, and the request repeated', async () => {
    let asked = 0;
    let aheadMs = 0;
    standIn.secrets.set('second', 'secret2');
    const target = await open({
      credentials: async () => {
        asked += 1;
        if (asked === 1) {
          const { accessKeyId, secretAccessKey } = standIn.bucket;
          return { accessKeyId, secretAccessKey };
        }
        return { accessKeyId: 'second', secretAccessKey: 'secret2', sessionToken: 'token' };
      },
      now: () => Date.now() + aheadMs,
    });
    const { object } = await putSample(target, 1000);
    standIn.expired.add(standIn.bucket.accessKeyId);
    // New credentials are not asked for at every refusal, only some seconds after the last time.
    expect(await failureOf(target.read(object, 0, 10))).toBeInstanceOf(StoreUnavailable);
    expect(asked).toBe(1);
    aheadMs = 20_000;
    await Promise.all(Array.from({ length: 5 }, () => target.read(object, 0, 10)));
    expect(asked).toBe(2);
    const last = standIn.seen.at(-1);
    expect(last?.headers['x-amz-security-token']).toBe('token');
    if (target.upload.kind !== 'direct') throw new Error('uploads are direct');
    const { url } = await target.upload.signUpload(
      SPACE,
      newGeneration(),
      urlLifeUntil(Date.now() + 60_000),
      NODE_MEDIA_TYPE,
    );
    expect(new URL(url).searchParams.get('X-Amz-Security-Token')).toBe('token');
  });

  test('that expired and cannot be renewed are a refusal in words', async () => {
    const target = await open();
    const { object } = await putSample(target, 1000);
    standIn.expired.add(standIn.bucket.accessKeyId);
    const failure = await failureOf(target.read(object, 0, 10));
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect(String(failure)).toMatch(/ExpiredToken.*renew/);
  });

  test('that are nowhere to be found are an error that says so', async () => {
    const failure = await failureOf(open({ credentials: () => Promise.reject(new Error('nothing')) }));
    expect(failure).toBeInstanceOf(EngineRefused);
    expect(String(failure)).toMatch(/AWS_ACCESS_KEY_ID/);
  });
});

test('a process whose clock is an hour off uses the time of the store', async () => {
  for (const offMs of [-3_600_000, 3_600_000]) {
    const target = await open({ now: () => Date.now() + offMs });
    const { object } = await putSample(target, 1000);
    const before = standIn.seen.length;
    await target.read(object, 0, 10);
    expect(standIn.seen.length - before).toBe(1);
  }
});

test('upload URLs end at the second they name, never later than asked, and begin at the time of the rows', async () => {
  const target = await open();
  const { upload } = target;
  if (upload.kind !== 'direct') throw new Error('uploads are direct');
  for (const expiresAt of [2_000_000_000_000, 2_000_000_000_001, 2_000_000_000_999]) {
    const issuedAt = expiresAt - 1500;
    const signed = await upload.signUpload(SPACE, newGeneration(), { issuedAt, expiresAt }, NODE_MEDIA_TYPE);
    const query = new URL(signed.url).searchParams;
    const [, year, month, day, hour, minute, second] =
      /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(query.get('X-Amz-Date') ?? '')?.map(Number) ?? [];
    const beginsAt = Date.UTC(year!, month! - 1, day, hour, minute, second);
    const endsAt = beginsAt + Number(query.get('X-Amz-Expires')) * 1000;
    expect(endsAt).toBe(expiresAt - (expiresAt % 1000));
    expect(endsAt).toBeLessThanOrEqual(expiresAt);
    expect(endsAt).toBeGreaterThan(expiresAt - 1000);
    expect(beginsAt).toBe(Math.floor(issuedAt / 1000) * 1000);
  }
});
