import { expect, test } from 'bun:test';
import type { CasError } from './errors.ts';
import { FakeSpace, json, rejection } from './test/fake-space-fixture.ts';
import { assertInstructionIsSafe } from './upload-instruction.ts';

const instruction = (url: string, headers: Record<string, string> = {}) => {
  return { method: 'PUT', url, headers, expiresAt: 1 } as const;
};
const HASH = 'a'.repeat(64);

test.each([
  ['http://cas.test', 'http://cas.test/uploads/x', { anything: 'goes' }],
  ['http://cas.test', 'https://store.test/x', { 'content-type': 'a/b', 'if-none-match': '*' }],
  ['https://cas.test/prefix', 'https://cas.test/uploads/x', {}],
  ['https://cas.test', 'https://store.test/x', { 'Content-Type': 'a/b', 'X-Amz-Checksum-Sha256': 'x' }],
])('from %p to %p with %p: safe', (baseUrl, url, headers) => {
  expect(() => assertInstructionIsSafe('leaseNode', instruction(url, headers), baseUrl)).not.toThrow();
});

test.each([
  ['https://cas.test', 'http://cas.test/uploads/x', {}, /by http to cas\.test, in the clear/],
  ['HTTPS://cas.test', 'http://store.test/x', {}, /in the clear/],
  [
    'https://cas.test',
    'https://store.test/x',
    { cookie: 'a' },
    /another host, store\.test, with the header cookie/,
  ],
  [
    'http://cas.test',
    'http://cas.test/x',
    { 'Transfer-Encoding': 'chunked' },
    /the header Transfer-Encoding/,
  ],
  ['http://cas.test', 'http://user@cas.test/x', {}, /to cas\.test names a user or a password/],
  ['http://cas.test', 'http://:secret@store.test/x', {}, /to store\.test names a user or a password/],
  ['http://cas.test', 'http://cas.test:81/x', { authorization: 'Bearer x' }, /with the header authorization/],
  ['http://cas.test', 'http://cas.test.evil.test/x', { 'x-amz': 'x' }, /with the header x-amz,/],
])('from %p to %p with %p: refused', (baseUrl, url, headers, reason) => {
  expect(() =>
    assertInstructionIsSafe('leaseNode', instruction(url, headers as Record<string, string>), baseUrl),
  ).toThrow(reason);
});

test('a client that is told such a thing sends nothing', async () => {
  const space = new FakeSpace();
  const upload = instruction('http://space.test:8000/metadata', { 'x-metadata-token': '1' });
  space.plant('lease', () => json({ hash: HASH, state: 'awaiting_upload', upload }));
  const leased = space.client().leaseNode(HASH, { leaseDurationMs: 60_000 });
  expect(((await rejection(leased)) as CasError).code).toBe('UPLOAD_REFUSED');
  space.plant('lease', ({ url }) =>
    json({ hash: url.pathname.split('/').at(-2), state: 'awaiting_upload', upload }),
  );
  const put = space.client().putNode({ contentType: 'text/plain', content: 'hello' });
  expect(((await rejection(put)) as CasError).code).toBe('UPLOAD_REFUSED');
  expect(space.kinds()).toEqual(['lease', 'lease']);
});
