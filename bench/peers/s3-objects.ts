/** The S3 store read without us: signed GETs of the objects themselves, for a load generator that cannot sign. */
import { serverUrlOf } from '../../packages/server/engine/scaleout/s3/address.ts';
import { presignUrl } from '../../packages/server/engine/scaleout/s3/request-signer.ts';
import { parseS3Url } from '../../packages/server/engine-urls.ts';
import { formatContentUrl } from '../../test/support/cluster.ts';
import { sendToBucket, type TestBucket } from '../../test/support/s3-request.ts';
import { formatRequest, type RequestTemplate } from '../load/spec.ts';

const URL_SECONDS = 6 * 3600;
const PAGES_MAX = 100;

/** One presigned GET for each object of at least `bytes`. */
export async function presignStoredObjects(bucket: TestBucket, bytes: number): Promise<RequestTemplate[]> {
  const found: RequestTemplate[] = [];
  let after = '';
  for (let page = 0; page < PAGES_MAX; page++) {
    const query = { 'list-type': '2', prefix: 'nodes/', ...(after === '' ? {} : { 'start-after': after }) };
    const text = await (await sendToBucket(bucket, { method: 'GET', query })).text();
    const entries = [...text.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, entry = '']) => ({
      key: /<Key>(.*?)<\/Key>/.exec(entry)?.[1] ?? '',
      size: Number(/<Size>(\d+)<\/Size>/.exec(entry)?.[1]),
    }));
    for (const { key, size } of entries) if (size >= bytes) found.push(presign(bucket, key));
    after = entries.at(-1)?.key ?? '';
    if (after === '') break;
  }
  return found;
}

function presign(bucket: TestBucket, key: string): RequestTemplate {
  const url = presignUrl(
    {
      method: 'GET',
      bucket: serverUrlOf(parseS3Url(formatContentUrl(bucket), {})),
      key,
      headers: {},
      region: bucket.region,
      at: Date.now(),
      lifeSeconds: URL_SECONDS,
    },
    bucket,
  );
  const { pathname, search, host } = new URL(url);
  const { before } = formatRequest({ method: 'GET', path: pathname + search });
  return { before: before.replace('host: 127.0.0.1\r\n', `host: ${host}\r\n`) };
}
