/** The S3 store used without us: requests signed as ours are, made before the clock starts, for load generators that cannot sign. */
import { randomBytes } from 'node:crypto';
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { parseS3Url } from '../../packages/server/engine/address.ts';
import { type BucketUrl, serverUrlOf } from '../../packages/server/engine/s3/address.ts';
import { presignUrl, signRequest } from '../../packages/server/engine/s3/request-signer.ts';
import { formatContentUrl } from '../../test/support/cluster.ts';
import { sendToBucket, type TestBucket } from '../../test/support/s3-request.ts';
import { formatRequest, type PutTarget, type RequestTemplate } from '../load/spec.ts';

const PUT_URL_SECONDS = 3600;
const PAGES_MAX = 100;

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
}

/** The objects that our servers have stored. */
export async function listStoredObjects(bucket: TestBucket): Promise<StoredObject[]> {
  const found: StoredObject[] = [];
  let after = '';
  for (let page = 0; page < PAGES_MAX; page++) {
    const query = { 'list-type': '2', prefix: 'nodes/', ...(after === '' ? {} : { 'start-after': after }) };
    const text = await (await sendToBucket(bucket, { method: 'GET', query })).text();
    const entries = [...text.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, entry = '']) => ({
      key: /<Key>(.*?)<\/Key>/.exec(entry)?.[1] ?? '',
      bytes: Number(/<Size>(\d+)<\/Size>/.exec(entry)?.[1]),
    }));
    found.push(...entries);
    after = entries.at(-1)?.key ?? '';
    if (after === '') return found;
  }
  throw new Error(`The bucket holds more than ${PAGES_MAX} pages of objects.`);
}

/** Plain GETs, signed in headers as our servers sign theirs. Good for minutes: sign anew for every round. */
export function signReads(bucket: TestBucket, objects: readonly StoredObject[]): RequestTemplate[] {
  const address = addressOf(bucket);
  return objects.map(({ key }) => {
    const request = { ...address, method: 'GET', key, headers: {}, at: Date.now() };
    const { url, headers } = signRequest(request, {}, bucket);
    const { pathname, host } = new URL(url);
    return formatRequest({ method: 'GET', path: pathname, host, headers });
  });
}

/** PUTs by URLs as our servers hand them out, each to a key of its own that is spread as theirs are. */
export function presignWrites(bucket: TestBucket, count: number): PutTarget[] {
  const address = addressOf(bucket);
  const headers = { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' };
  const at = Date.now();
  return Array.from({ length: count }, () => {
    const name = randomBytes(33).toString('hex');
    const key = `peer/${name.slice(0, 2)}/${name.slice(2, 34)}/${name.slice(34)}`;
    const request = { ...address, method: 'PUT', key, headers, at, lifeSeconds: PUT_URL_SECONDS };
    return { url: presignUrl(request, bucket), headers };
  });
}

function addressOf(bucket: TestBucket): { readonly bucket: BucketUrl; readonly region: string } {
  return { bucket: serverUrlOf(parseS3Url(formatContentUrl(bucket), {})), region: bucket.region };
}
