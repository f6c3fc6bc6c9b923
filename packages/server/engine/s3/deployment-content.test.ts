import { afterAll, beforeAll, expect, test } from 'bun:test';
import { openCeph, type TestBuckets } from '../../../../test/support/ceph-server.ts';
import { listKeys, sendToBucket, type TestBucket } from '../../../../test/support/s3-request.ts';
import { testContentIntake } from '../test/content-intake-suite.ts';
import { newGeneration, SPACE, sampleNode } from '../test/samples.ts';
import { openS3ContentStore } from './open-s3-content-store.ts';
import { configOf, overwrite } from './test/s3-fixture.ts';

const START_MS_MAX = 300_000;
let buckets: TestBuckets;
let bucket: TestBucket;

beforeAll(async () => {
  buckets = await openCeph();
  bucket = await buckets.createBucket();
}, START_MS_MAX);
afterAll(() => buckets.close());

async function open() {
  const { content, intake } = await openS3ContentStore(configOf(bucket));
  return { intake, store: content, destroy: () => content.close() };
}

testContentIntake('S3 (Ceph RGW)', open);

test('other bytes under the key are reported, and left alone', async () => {
  const { intake, destroy } = await open();
  const { hash, node } = sampleNode(5_000, 9);
  const target = { space: SPACE, generation: newGeneration(), hash, canonicalSize: node.length };
  const stream = () => new Blob([node.slice()]).stream();
  await intake.take(target, stream);
  const keys = (await listKeys(bucket, 'nodes/')).filter((each) => each.endsWith(target.generation));
  expect(keys).toHaveLength(1);
  const key = keys[0] as string;
  await overwrite(bucket, key, new TextEncoder().encode('other bytes'));
  await expect(intake.take(target, stream)).rejects.toThrow(`other bytes under ${key}`);
  const left = await sendToBucket(bucket, { method: 'GET', key });
  expect(await left.text()).toBe('other bytes');
  await destroy();
});
