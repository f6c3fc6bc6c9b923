/** The contract, and what goes beyond it, on a real S3. */
import { afterAll, beforeAll } from 'bun:test';
import { openCeph, type TestBuckets } from '../../../../../test/support/ceph-server.ts';
import type { TestBucket } from '../../../../../test/support/s3-request.ts';
import { testContentStore } from '../../contract/content-store-suite.ts';
import { openS3World } from './test/s3-world.ts';

const START_MS_MAX = 120_000;
let buckets: TestBuckets;
let bucket: TestBucket;

beforeAll(async () => {
  buckets = await openCeph();
  bucket = await buckets.createBucket();
}, START_MS_MAX);
afterAll(() => buckets.close());

testContentStore('S3 (Ceph RGW)', { upload: 'direct', open: () => openS3World(bucket) });
