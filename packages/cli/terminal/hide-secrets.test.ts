import { expect, test } from 'bun:test';
import { hideSecrets, nameGivenFile } from './hide-secrets.ts';

const TOKEN = `${btoa('{"alg":"ES256","kid":"a"}')}.${btoa('{"ver":1}').replaceAll('=', '')}.aa-bb_cc`;

test.each([
  [`unknown option '--token=${TOKEN}'`],
  [`NAME "${TOKEN}" cannot be used`],
  [`the key set {"kty":"EC","x":"x","d":"aa-bb_cc"} cannot be read`],
  [JSON.stringify(`{"kty":"EC", "d": "aa-bb_cc"}`)],
  ['the data folder postgres://bob:aa-bb_cc@host/db does not exist'],
  ['--listen "http://bob:aa@aa-bb_cc@host:1" is not HOST:PORT'],
  ['--listen "bob:aa-bb_cc@host:1" is not HOST:PORT'],
  ['postgres:///db?user=bob&password=aa-bb_cc'],
  ['host=a sslpassword=aa-bb_cc dbname=b'],
  ["unknown option '--password=aa-bb_cc'"],
  ['https://host/b?X-Amz-Security-Token=aa-bb_cc&X-Amz-Signature=aa-bb_cc'],
])('%s is printed without its secret', (text) => {
  expect(hideSecrets(text)).toContain('(not shown)');
  expect(hideSecrets(text)).not.toContain('aa-bb_cc');
});

test('other texts stay as they are', () => {
  const hash = '0f'.repeat(32);
  for (const text of [
    hash,
    `notes@2026 has no node ${hash}`,
    'http://127.0.0.1:1/a cannot be reached',
    'me@home.eyJ',
    'kept as notes@2026-11-28T10:31:05Z: notes@0f0f, then a:b/c@d',
  ])
    expect(hideSecrets(text)).toBe(text);
  expect(nameGivenFile('./tokens/mine')).toBe('./tokens/mine');
  expect(nameGivenFile(hash)).not.toContain(hash);
});
