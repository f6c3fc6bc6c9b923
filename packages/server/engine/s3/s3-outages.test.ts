/** A real S3 behind a network that cuts, resets, hangs and slows. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { openCeph, type TestBuckets } from '../../../../test/support/ceph-server.ts';
import type { TestBucket } from '../../../../test/support/s3-request.ts';
import { startTcpProxy, type TcpProxy } from '../../../../test/support/tcp-proxy.ts';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { newGeneration, readObject, SPACE, sampleNode } from '../test/samples.ts';
import type { S3Limits } from './limits.ts';
import { signRequest } from './request-signer.ts';
import { openS3World, type S3World } from './test/s3-fixture.ts';

const START_MS_MAX = 300_000;
const LIMITS = { nodeBytesMax: 32 * MIB_BYTES };
/** Short time limits, for the tests of them: a busy store may take longer to answer. */
const IMPATIENT: Partial<S3Limits> = { headMsMax: 1000, stallMsMax: 1000, attemptsMax: 3 };
let buckets: TestBuckets;
let bucket: TestBucket;
let proxy: TcpProxy;
let store: ContentStore;
let object: StoredObject;
let node: Uint8Array;
let hash: string;

beforeAll(async () => {
  buckets = await openCeph();
  bucket = await buckets.createBucket();
}, START_MS_MAX);
afterAll(() => buckets.close());

beforeEach(async () => {
  const { hostname, port } = new URL(bucket.endpoint);
  proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  const world = await openWorld();
  store = world.store;
  ({ hash, node } = sampleNode(6 * MIB_BYTES, 1));
  const generation = newGeneration();
  await world.put(generation, node);
  const inspected = await store.inspect(SPACE, generation, hash, LIMITS);
  if (!inspected.found || inspected.evidence.verdict !== 'good')
    throw new Error('the sample was turned down');
  object = { space: SPACE, generation, canonicalSize: node.length, integrity: inspected.evidence.integrity };
});
afterEach(async () => {
  await store.close();
  await proxy.close();
});

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  );

function openWorld(limits: Partial<S3Limits> = {}): Promise<S3World> {
  const behindProxy = { ...bucket, endpoint: `http://${proxy.address}` };
  return openS3World(behindProxy, { limits: { retryPauseMs: 1, ...limits } });
}

const readAll = (from = store): Promise<Uint8Array> => readObject(from, object);

test('a read through connections that are cut again and again is whole', async () => {
  const before = proxy.connections - proxy.accepted;
  proxy.setMode({ kind: 'cut', afterBytes: MIB_BYTES });
  expect(Buffer.compare(await readAll(), node)).toBe(0);
  const ended = before - (proxy.connections - proxy.accepted);
  expect(ended).toBeGreaterThanOrEqual(5);
}, 300_000);

test('resets and silence are failures of the requests they meet, and of no other', async () => {
  const impatient = await openWorld(IMPATIENT);
  for (const kind of ['reset', 'hang'] as const) {
    proxy.setMode({ kind });
    expect(await failureOf(readAll(impatient.store))).toBeInstanceOf(StoreUnavailable);
    const inspecting = impatient.store.inspect(SPACE, object.generation, hash, LIMITS);
    expect(await failureOf(inspecting)).toBeInstanceOf(StoreUnavailable);
    const { deleted, failure } = await impatient.store.delete(SPACE, [newGeneration()]);
    expect([deleted.size, failure instanceof StoreUnavailable]).toEqual([0, true]);
    proxy.setMode({ kind: 'pass' });
    expect(Buffer.compare(await readAll(), node)).toBe(0);
  }
  await impatient.destroy();
}, 300_000);

test('silence amid a read is taken up again when the network is back', async () => {
  // Short limits, so that the silence ends a request, and enough attempts to outlast it.
  const impatient = await openWorld({ ...IMPATIENT, attemptsMax: 20 });
  proxy.setMode({ kind: 'slow', bytesPerSecond: 2 * MIB_BYTES, delayMs: 0 });
  const reading = readAll(impatient.store);
  await Bun.sleep(300);
  proxy.setMode({ kind: 'hang' });
  const back = Bun.sleep(1200).then(() => proxy.setMode({ kind: 'pass' }));
  expect(Buffer.compare(await reading, node)).toBe(0);
  await back;
  await impatient.destroy();
}, 300_000);

test('a slow network is only slow', async () => {
  proxy.setMode({ kind: 'slow', bytesPerSecond: 8 * MIB_BYTES, delayMs: 5 });
  await store.verify(object, hash);
}, 300_000);

test('the bucket is also found by a host name of its own', async () => {
  const { host, port } = new URL(bucket.endpoint);
  const signed = signRequest(
    {
      method: 'GET',
      bucket: { origin: `http://${host}`, host: `${bucket.name}.localhost:${port}`, path: '' },
      key: 'holdfast-store',
      headers: {},
      region: bucket.region,
      at: Date.now(),
    },
    { host: `${bucket.name}.localhost:${port}` },
    bucket,
  );
  const response = await fetch(signed.url, { headers: signed.headers });
  expect([response.status, await response.text()]).toEqual([200, 'test-store']);
});
