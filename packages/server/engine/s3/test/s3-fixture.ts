/** Content stores for the tests of this room: in a bucket of the real S3, or of a stand-in that misbehaves. */
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { sendToBucket, type TestBucket } from '../../../../../test/support/s3-request.ts';
import type { Generation } from '../../../core/model.ts';
import type { ContentStore } from '../../../core/ports.ts';
import { SPACE, urlLifeUntil } from '../../test/samples.ts';
import { openS3ContentStore, type S3ContentStoreConfig } from '../open-s3-content-store.ts';

export const UPLOAD_TTL_MS = 300_000;

export function configOf(
  bucket: TestBucket,
  changes: Partial<S3ContentStoreConfig> = {},
): S3ContentStoreConfig {
  const { name, endpoint, region, accessKeyId, secretAccessKey } = bucket;
  return {
    address: { bucket: name, prefix: '', endpoint, publicEndpoint: undefined, region, style: 'path' },
    uploadTtlMs: UPLOAD_TTL_MS,
    identity: { storeId: 'test-store', isMarked: false, noteMarked: async () => {} },
    credentials: async () => ({ accessKeyId, secretAccessKey }),
    ...changes,
  };
}

/** As servers open it. */
export async function openStore(config: S3ContentStoreConfig): Promise<ContentStore> {
  return (await openS3ContentStore(config)).content;
}

export interface S3World {
  readonly bucket: TestBucket;
  readonly store: ContentStore;
  put(generation: Generation, bytes: Uint8Array): Promise<void>;
  finish(generation: Generation): void;
  destroy(): Promise<void>;
}

export async function openS3World(
  bucket: TestBucket,
  changes: Partial<S3ContentStoreConfig> = {},
): Promise<S3World> {
  const store = await openStore(configOf(bucket, changes));
  return {
    bucket,
    store,
    put: (generation, bytes) => putDirectly(store, generation, bytes),
    finish: () => {},
    destroy: () => store.close(),
  };
}

/** Uploads as a client does. */
export async function putDirectly(
  store: ContentStore,
  generation: Generation,
  bytes: Uint8Array,
): Promise<void> {
  if (store.upload.kind !== 'direct') throw new Error('clients upload to S3 themselves');
  const { url, headers } = await store.upload.signUpload(
    SPACE,
    generation,
    urlLifeUntil(Date.now() + UPLOAD_TTL_MS),
    NODE_MEDIA_TYPE,
  );
  const response = await fetch(url, { method: 'PUT', headers, body: bytes.slice() });
  if (!response.ok) throw new Error(`the upload was answered ${response.status}: ${await response.text()}`);
}

/** Writes past every rule, which the holder of an upload URL cannot do. */
export async function overwrite(
  bucket: TestBucket,
  key: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const response = await sendToBucket(bucket, { method: 'PUT', key, body });
  if (!response.ok) throw new Error(`overwriting was answered ${response.status}`);
}
