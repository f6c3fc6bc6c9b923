/** The suite every engine passes, and what goes beyond it, on a real S3. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { openCeph, type TestBuckets } from '../../../../test/support/ceph-server.ts';
import type { TestBucket } from '../../../../test/support/s3-request.ts';
import { testContentStore } from '../test/content-store-suite.ts';
import { newGeneration, SPACE, sampleNode, urlLifeUntil } from '../test/samples.ts';
import { openS3World } from './test/s3-fixture.ts';

const START_MS_MAX = 300_000;
const LIMITS = { nodeBytesMax: 32 * 1024 * 1024 };
let buckets: TestBuckets;
let bucket: TestBucket;

beforeAll(async () => {
  buckets = await openCeph();
  bucket = await buckets.createBucket();
}, START_MS_MAX);
afterAll(() => buckets.close());

testContentStore('S3 (Ceph RGW)', { upload: 'direct', open: () => openS3World(bucket) });

test('an upload URL of a store that obeys unsigned headers neither copies, overwrites nor publishes', async () => {
  const { store, put, destroy } = await openS3World(bucket);
  const { upload } = store;
  if (upload.kind !== 'direct') throw new Error('clients upload to S3 themselves');
  const [secret, own] = [sampleNode(5000, 1), sampleNode(6000, 2)];
  const [theirs, fresh, taken, published] = [
    newGeneration(),
    newGeneration(),
    newGeneration(),
    newGeneration(),
  ];
  await put(theirs, secret.node);
  await put(taken, own.node);
  const sign = (generation: string) =>
    upload.signUpload(SPACE, generation, urlLifeUntil(Date.now() + 60_000), NODE_MEDIA_TYPE);
  const pathOf = (url: string): string => new URL(url).pathname;
  const source = { 'x-amz-copy-source': pathOf((await sign(theirs)).url) };
  for (const generation of [fresh, taken]) {
    const { url, headers } = await sign(generation);
    await fetch(url, { method: 'PUT', headers: { ...headers, ...source } });
  }
  const copied = await store.inspect(SPACE, fresh, secret.hash, LIMITS);
  expect(copied.found && copied.evidence.verdict === 'good').toBe(false);
  const kept = await store.inspect(SPACE, taken, own.hash, LIMITS);
  expect(kept).toMatchObject({ found: true, evidence: { verdict: 'good' } });
  for (const publishing of [
    { 'x-amz-acl': 'public-read' },
    { 'x-amz-grant-read': 'uri="http://acs.amazonaws.com/groups/global/AllUsers"' },
  ]) {
    const { url, headers } = await sign(published);
    const status = (await fetch(url, { method: 'PUT', headers: { ...headers, ...publishing }, body: 'x' }))
      .status;
    expect(status).toBeOneOf([400, 403]);
    expect((await fetch(bucket.endpoint + pathOf(url))).status).toBe(403);
  }
  await destroy();
});

test('the bytes of an upload are known without reading it, and an object that is not there is none', async () => {
  const { store, put, destroy } = await openS3World(bucket);
  const { upload } = store;
  if (upload.kind !== 'direct') throw new Error('clients upload to S3 themselves');
  const [generation, empty] = [newGeneration(), newGeneration()];
  await put(generation, sampleNode(5000, 1).node);
  await put(empty, new Uint8Array(0));
  const found = [generation, empty, newGeneration()].map((each) => upload.findBytes(SPACE, each));
  expect(await Promise.all(found)).toEqual([sampleNode(5000, 1).node.length, 0, undefined]);
  await destroy();
});

test('a bucket that does not exist, and a wrong secret, are refused in words', async () => {
  await expect(openS3World({ ...bucket, name: 'no-such-bucket' })).rejects.toThrow(/NoSuchBucket.*create it/);
  await expect(openS3World({ ...bucket, secretAccessKey: 'wrong' })).rejects.toThrow(
    /SignatureDoesNotMatch.*AWS_SECRET/,
  );
});
