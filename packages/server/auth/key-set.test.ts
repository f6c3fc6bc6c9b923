import { describe, expect, test } from 'bun:test';
import { getDiffieHellman } from 'node:crypto';
import { ALGORITHMS } from '@holdfast/protocol';
import fc from 'fast-check';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { JWKS_BYTES_MAX, JWKS_KEYS_MAX } from './auth-limits.ts';
import { findKey, KeySetError, parseKeySet } from './key-set.ts';
import { keySetText, testKey } from './test/auth-fixture.ts';

const p256 = (await testKey('ES256')).publicJwk;
const otherP256 = (await testKey('ES256', 'other')).publicJwk;
const rsa = (await testKey('RS256')).publicJwk;
const ed25519 = (await testKey('EdDSA')).publicJwk;

function refusalsOf(...keys: JWK[]): string {
  return parseKeySet(keySetText(...keys)).refusals.join('; ');
}

describe('keys', () => {
  test.each([...ALGORITHMS])('of %s are understood and imported', async (algorithm) => {
    const { publicJwk } = await testKey(algorithm);
    const { keys, refusals } = parseKeySet(keySetText(publicJwk));
    expect(refusals).toEqual([]);
    expect(keys[0]?.algorithms).toContain(algorithm);
    expect((await keys[0]?.import(algorithm))?.type).toBe('public');
  });

  test('of RSA without "alg" do both RSA algorithms, with it only that', () => {
    expect(parseKeySet(keySetText(rsa)).keys[0]?.algorithms).toEqual(['PS256', 'RS256']);
    expect(parseKeySet(keySetText({ ...rsa, alg: 'PS256' })).keys[0]?.algorithms).toEqual(['PS256']);
  });

  test.each<[string, JWK]>([
    ['another type', { kty: 'AKP', pub: 'AA' }],
    ['another curve', { ...p256, crv: 'secp256k1' }],
    ['X25519', { kty: 'OKP', crv: 'X25519', x: 'AA' }],
    ['encryption', { ...p256, use: 'enc' }],
    ['signing only', { ...p256, key_ops: ['sign'] }],
    ['an algorithm of another curve', { ...p256, alg: 'ES384' }],
    ['an unsupported algorithm', { ...rsa, alg: 'RS512' }],
  ])('for %s are passed over without complaint', (_, jwk) => {
    expect(parseKeySet(keySetText(jwk))).toEqual({ keys: [], identity: '[]', refusals: [] });
  });

  test.each<[string, unknown, string]>([
    ['private EC', { ...p256, d: 'AAAA' }, 'private parts'],
    ['private RSA', { ...rsa, d: 'AAAA' }, 'private parts'],
    ['RSA with one prime', { ...rsa, p: 'AAAA' }, 'private parts'],
    ['symmetric', { kty: 'oct', k: 'c2VjcmV0' }, 'symmetric'],
    ['no type', { x: 'AA' }, 'no "kty"'],
    ['no object', 'key', 'not an object'],
    ['kid that is no string', { ...p256, kid: 7 }, '"kid"'],
    ['empty kid', { ...p256, kid: '' }, '"kid"'],
    ['alg that is no string', { ...p256, alg: 7 }, '"alg"'],
    ['missing coordinate', { kty: 'EC', crv: 'P-256', x: 'AA' }, '"y"'],
    ['coordinate that is no base64url', { ...p256, x: 'A+/=' }, '"x"'],
    ['RSA exponent 1', { ...rsa, e: 'AQ' }, 'unsafe exponent'],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_IU' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: 'xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o' },
      'small order',
    ],
    [
      'Ed25519 of small order',
      { ...ed25519, x: '7P_______________________________________38' },
      'small order',
    ],
    [
      'Ed25519 beyond the modulus',
      { ...ed25519, x: '7f_______________________________________38' },
      'not written',
    ],
    [
      'Ed25519 beyond the modulus',
      { ...ed25519, x: '7v________________________________________8' },
      'not written',
    ],
    ['Ed25519 that is cut short', { ...ed25519, x: 'BBBB' }, '3 bytes'],
    ['RSA with a huge exponent', { ...rsa, e: 'AQAAAAAB' }, 'unsafe exponent'],
    [
      'RSA with an even modulus',
      {
        ...rsa,
        n: '_____________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________g',
      },
      'even modulus',
    ],
    ['even RSA exponent', { ...rsa, e: 'AQAA' }, 'unsafe exponent'],
  ])('that are unsafe are refused: %s', (_, jwk, reason) => {
    const { keys, refusals } = parseKeySet(JSON.stringify({ keys: [jwk] }));
    expect(keys).toEqual([]);
    expect(refusals.join()).toContain(reason);
    expect(refusals.join()).not.toContain('AAAA');
    expect(refusals.join()).not.toContain('c2VjcmV0');
  });

  test('of RSA need 2048 bits, whatever their leading zeros', async () => {
    const pair = await generateKeyPair('RS256', { modulusLength: 2048, extractable: true });
    const strong = await exportJWK(pair.publicKey);
    expect(refusalsOf(strong)).toBe('');
    const modulus = Buffer.from(strong.n as string, 'base64url');
    const short = modulus.subarray(1);
    const padded = Buffer.concat([Buffer.alloc(200), short]);
    expect(refusalsOf({ ...strong, n: short.toString('base64url') })).toContain('use 2048');
    expect(refusalsOf({ ...strong, n: padded.toString('base64url') })).toContain('use 2048');
    expect(refusalsOf({ ...strong, n: Buffer.alloc(1025, 255).toString('base64url') })).toContain(
      '8200 bits',
    );
  });

  test('that nothing tells apart are refused', () => {
    expect(refusalsOf({ ...p256, kid: 'a' }, { ...otherP256, kid: 'a' })).toContain('an earlier key');
    expect(refusalsOf(p256, otherP256)).toContain('an earlier key');
    expect(refusalsOf({ ...p256, kid: 'a' }, { ...otherP256, kid: 'b' }, { ...rsa, kid: 'a' })).toBe('');
  });

  test.each([
    ['prime', getDiffieHellman('modp14').getPrime('hex')],
    ['square', (BigInt(`0x${getDiffieHellman('modp14').getPrime('hex')}`) ** 2n).toString(16)],
  ])('of RSA with a %s modulus fail to import', async (_, modulus) => {
    const n = Buffer.from(modulus, 'hex').toString('base64url');
    const { keys, refusals } = parseKeySet(JSON.stringify({ keys: [{ ...rsa, n }] }));
    expect(refusals).toEqual([]);
    await expect((keys[0] as (typeof keys)[0]).import('RS256')).rejects.toThrow('a prime or a square');
  });

  test('whose numbers are no key fail to import', async () => {
    const { keys } = parseKeySet(keySetText({ ...p256, x: otherP256.x as string }));
    await expect((keys[0] as (typeof keys)[0]).import('ES256')).rejects.toThrow();
  });
});

describe('findKey', () => {
  const keySet = parseKeySet(
    keySetText({ ...p256, kid: 'a' }, { ...rsa, kid: 'a' }, { ...rsa, kid: 'b', alg: 'RS256' }),
  );
  test.each([
    ['ES256', 'a', 'a'],
    ['ES256', undefined, 'a'],
    ['ES256', 'b', undefined],
    ['PS256', undefined, 'a'],
    ['RS256', undefined, undefined],
    ['RS256', 'b', 'b'],
    ['EdDSA', undefined, undefined],
  ] as const)('%s with kid %p: %p', (algorithm, kid, expected) => {
    expect(findKey(keySet, algorithm, kid)?.kid).toBe(expected);
  });
});

describe('a set', () => {
  test('has the identity of its keys, not of its text', () => {
    const plain = parseKeySet(keySetText({ ...p256, kid: 'a' }));
    const other = parseKeySet(`{ "keys": [${JSON.stringify({ kid: 'a', extra: 1, ...p256 })}] }`);
    expect(other.identity).toBe(plain.identity);
    for (const changed of [{ ...p256, kid: 'b' }, { ...otherP256, kid: 'a' }, p256]) {
      expect(parseKeySet(keySetText(changed)).identity).not.toBe(plain.identity);
    }
  });

  test.each([
    ['empty text', ''],
    ['no object', '[]'],
    ['no keys', '{}'],
    ['keys that are no array', '{"keys":{}}'],
    ['a single key', JSON.stringify(p256)],
    ['a name twice', '{"keys":[],"keys":[]}'],
    ['too many keys', JSON.stringify({ keys: Array(JWKS_KEYS_MAX + 1).fill({ kty: 'x' }) })],
    ['too long', `{"keys":[]${' '.repeat(JWKS_BYTES_MAX)}}`],
  ])('is not: %s', (_, text) => {
    expect(() => parseKeySet(text)).toThrow(KeySetError);
  });

  test('never throws anything else, and never keeps a private or symmetric key', () => {
    const names = fc.constantFrom(
      'kty',
      'crv',
      'x',
      'y',
      'n',
      'e',
      'd',
      'k',
      'kid',
      'alg',
      'use',
      'key_ops',
      'p',
    );
    const values = fc.oneof(
      fc.constantFrom<unknown>(
        'EC',
        'RSA',
        'oct',
        'OKP',
        'P-256',
        'Ed25519',
        'AQAB',
        'sig',
        'ES256',
        rsa.n,
        p256.x,
        p256.y,
      ),
      fc.jsonValue(),
    );
    const jwks = fc.record({ keys: fc.array(fc.oneof(fc.dictionary(names, values), fc.jsonValue())) });
    fc.assert(
      fc.property(
        fc.oneof(
          jwks.map((value) => JSON.stringify(value)),
          fc.string(),
          fc.json(),
        ),
        (text) => {
          let keySet: ReturnType<typeof parseKeySet>;
          try {
            keySet = parseKeySet(text);
          } catch (error) {
            expect(error).toBeInstanceOf(KeySetError);
            return;
          }
          for (const key of keySet.keys) {
            expect(key.identity).not.toMatch(/"(?:d|k|p)":/);
            expect(key.algorithms.length).toBeGreaterThan(0);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
