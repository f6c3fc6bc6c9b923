/** Signatures: against the examples that AWS publishes, and against a second implementation on whatever we may send. */
import { describe, expect, test } from 'bun:test';
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import type { S3Address } from '../address.ts';
import { clientUrlOf, serverUrlOf } from './address.ts';
import { presignUrl, signRequest } from './request-signer.ts';

/** "Signature Calculations for the Authorization Header", "Authenticating Requests: Using Query Parameters". */
const CREDENTIALS = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const BUCKET = {
  origin: 'https://examplebucket.s3.amazonaws.com',
  host: 'examplebucket.s3.amazonaws.com',
  path: '',
};
const AT = Date.UTC(2013, 4, 24);
const COMMON = { bucket: BUCKET, region: 'us-east-1', at: AT, headers: {} };

describe('the published examples', () => {
  test('GET of an object, with a range', () => {
    const request = { ...COMMON, method: 'GET', key: 'test.txt', headers: { range: 'bytes=0-9' } };
    const { url, headers } = signRequest(request, {}, CREDENTIALS);
    expect(url).toBe('https://examplebucket.s3.amazonaws.com/test.txt');
    expect(headers.authorization).toBe(
      'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    );
  });

  test('GET of a subresource and of a listing', () => {
    const signatureOf = (query: Record<string, string>) =>
      signRequest(
        { ...COMMON, method: 'GET', key: undefined, query },
        {},
        CREDENTIALS,
      ).headers.authorization?.slice(-64);
    expect(signatureOf({ lifecycle: '' })).toBe(
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    );
    expect(signatureOf({ prefix: 'J', 'max-keys': '2' })).toBe(
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    );
  });

  test('a presigned GET', () => {
    const url = presignUrl({ ...COMMON, method: 'GET', key: 'test.txt', lifeSeconds: 86_400 }, CREDENTIALS);
    expect(new URL(url).searchParams.get('X-Amz-Signature')).toBe(
      'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
    );
    expect(url).toStartWith(
      'https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&',
    );
  });
});

test('any request is signed as a second implementation signs it', () => {
  const word = fc.stringMatching(/^[a-z][a-z0-9-]{0,12}$/);
  const value = fc.stringMatching(/^[!-~]{1,20}$/);
  const property = fc.property(
    fc.dictionary(word, fc.string({ maxLength: 12 })),
    fc.dictionary(word, value),
    fc.array(fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}$/), { minLength: 1, maxLength: 4 }),
    fc.string({ minLength: 1 }),
    fc.integer({ min: 0, max: 4_000_000_000_000 }),
    fc.option(fc.string(), { nil: undefined }),
    (query, headers, names, secretAccessKey, at, body) => {
      const credentials = { accessKeyId: 'id', secretAccessKey, sessionToken: undefined };
      const key = names.join('/');
      const request = { method: 'PUT', bucket: BUCKET, key, query, headers, region: 'eu-x', at, body };
      const signed = signRequest(request, {}, credentials);
      expect(signed.headers.authorization?.slice(-64)).toBe(referenceSignature(signed, at, secretAccessKey));
      expect(Object.fromEntries(new URL(signed.url).searchParams)).toEqual(
        Object.fromEntries(Object.entries(query)),
      );
    },
  );
  fc.assert(property, { numRuns: 300 });
});

test('a key that would need escapes is never sent', () => {
  for (const key of ['', 'a b', 'a?b', 'a%20', 'ä', 'a\nb', 'a#', '.', 'a/../b', 'a/.', 'a//b', '/a', 'a/']) {
    expect(() => signRequest({ ...COMMON, method: 'GET', key }, {}, CREDENTIALS)).toThrow(/escapes/);
  }
});

describe('addresses', () => {
  const address: S3Address = {
    bucket: 'bu.cket',
    prefix: '',
    endpoint: undefined,
    publicEndpoint: undefined,
    region: 'eu-central-1',
    style: 'virtual',
  };

  test('path-style and virtual-host, here and at AWS', () => {
    const endpoint = 'http://127.0.0.1:7480';
    const cases = [
      [address, 'https://bu.cket.s3.eu-central-1.amazonaws.com', 'bu.cket.s3.eu-central-1.amazonaws.com', ''],
      [
        { ...address, style: 'path' },
        'https://s3.eu-central-1.amazonaws.com',
        's3.eu-central-1.amazonaws.com',
        '/bu.cket',
      ],
      [{ ...address, endpoint, style: 'path' }, endpoint, '127.0.0.1:7480', '/bu.cket'],
      [{ ...address, endpoint: 'http://h:80' }, 'http://bu.cket.h', 'bu.cket.h', ''],
    ] as const;
    for (const [each, origin, host, path] of cases) expect(serverUrlOf(each)).toEqual({ origin, host, path });
    expect(serverUrlOf({ ...address, region: 'cn-north-1' }).origin).toEndWith('.amazonaws.com.cn');
  });

  test('upload URLs name the public endpoint of the store', () => {
    const both = { ...address, endpoint: 'http://inside:1', publicEndpoint: 'https://outside' } as const;
    expect([serverUrlOf(both).origin, clientUrlOf(both).origin]).toEqual([
      'http://bu.cket.inside:1',
      'https://bu.cket.outside',
    ]);
    expect(clientUrlOf({ ...both, publicEndpoint: undefined })).toEqual(serverUrlOf(both));
  });
});

/** Written from the specification, with another library's primitives and the request as it goes out. */
function referenceSignature(
  { url, method, headers, body }: ReturnType<typeof signRequest>,
  at: number,
  secret: string,
): string {
  const { pathname, search, host } = new URL(url);
  const rfc3986 = (text: string) =>
    [...Buffer.from(text)]
      .map((byte) =>
        /[A-Za-z0-9\-._~]/.test(String.fromCharCode(byte))
          ? String.fromCharCode(byte)
          : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
      )
      .join('');
  const query = [...new URLSearchParams(search)]
    .map(([name, value]) => `${rfc3986(name)}=${rfc3986(value)}`)
    .sort()
    .join('&');
  const all: Record<string, string> = { ...headers, host };
  delete all.authorization;
  const names = Object.keys(all).sort();
  const digest = createHash('sha256')
    .update((body as string | undefined) ?? '')
    .digest('hex');
  const canonical = `${method}\n${pathname}\n${query}\n${names.map((name) => `${name}:${all[name]}\n`).join('')}\n${names.join(';')}\n${digest}`;
  const date = `${new Date(at).toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
  const scope = [date.slice(0, 8), 'eu-x', 's3', 'aws4_request'];
  const hmac = (key: Buffer | string, text: string): Buffer =>
    createHmac('sha256', key).update(text).digest();
  const key = scope.reduce<Buffer | string>(hmac, `AWS4${secret}`);
  const digestOfRequest = createHash('sha256').update(canonical).digest('hex');
  return hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope.join('/')}\n${digestOfRequest}`).toString('hex');
}
