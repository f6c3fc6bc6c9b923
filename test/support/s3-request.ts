/**
 * Signed requests to an S3 store (AWS Signature Version 4 in headers), written without the product's code: the tests' own
 * hands in the bucket, to make, list and meddle.
 */
import { createHash, createHmac } from 'node:crypto';

export interface TestBucket {
  /** such as `http://127.0.0.1:7480` */
  readonly endpoint: string;
  readonly name: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

interface S3Request {
  readonly method: string;
  /** within the bucket; '' is the bucket itself */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer> | string;
}

export function sendToBucket(bucket: TestBucket, request: S3Request): Promise<Response> {
  const query = Object.entries(request.query ?? {})
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const path = `/${bucket.name}${request.key === undefined ? '' : `/${request.key.split('/').map(encode).join('/')}`}`;
  const url = `${bucket.endpoint}${path}${query === '' ? '' : `?${query}`}`;
  const at = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const bodyDigest = createHash('sha256')
    .update(request.body ?? '')
    .digest('hex');
  const headers: Record<string, string> = {
    ...request.headers,
    host: new URL(url).host,
    'x-amz-content-sha256': bodyDigest,
    'x-amz-date': at,
  };
  const names = Object.keys(headers).sort();
  const canonical = [
    ...[request.method, path, query],
    ...names.map((name) => `${name}:${headers[name]}`),
    ...['', names.join(';'), bodyDigest],
  ].join('\n');
  const scope = `${at.slice(0, 8)}/${bucket.region}/s3/aws4_request`;
  const signature = signText(bucket, scope, at, canonical);
  headers.authorization = `AWS4-HMAC-SHA256 Credential=${bucket.accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return fetch(url, {
    method: request.method,
    headers,
    ...(request.body === undefined ? {} : { body: request.body }),
  });
}

function signText(bucket: TestBucket, scope: string, at: string, canonical: string): string {
  const hmac = (key: Buffer | string, text: string): Buffer =>
    createHmac('sha256', key).update(text).digest();
  const digest = createHash('sha256').update(canonical).digest('hex');
  const key = scope.split('/').reduce<Buffer | string>(hmac, `AWS4${bucket.secretAccessKey}`);
  return hmac(key, ['AWS4-HMAC-SHA256', at, scope, digest].join('\n')).toString('hex');
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** As `sendToBucket`, but an answer other than 2xx is an error. */
async function sendWell(bucket: TestBucket, request: S3Request): Promise<Response> {
  const response = await sendToBucket(bucket, request);
  if (response.ok) return response;
  throw new Error(
    `${request.method} /${request.key ?? ''} answered ${response.status}: ${await response.text()}`,
  );
}

export async function createBucket(bucket: TestBucket): Promise<void> {
  await sendWell(bucket, { method: 'PUT' });
}

const PAGES_MAX = 100;

/** Every key that begins with `prefix`. */
export async function listKeys(bucket: TestBucket, prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  let token: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const response = await sendWell(bucket, {
      method: 'GET',
      query: { 'list-type': '2', prefix, ...(token === undefined ? {} : { 'continuation-token': token }) },
    });
    const text = await response.text();
    keys.push(...[...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1] as string));
    token = /<NextContinuationToken>([^<]+)</.exec(text)?.[1];
    if (token === undefined) return keys;
  }
  throw new Error(`bucket ${bucket.name} holds more than ${PAGES_MAX} pages of keys`);
}
