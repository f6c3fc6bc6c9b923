/** Row 7 of the table in docs/api.md, Capabilities: header, key, signature and claims. */
import { describe, expect, test } from 'bun:test';
import {
  AUDIENCE,
  encodePart,
  goodClaims,
  ISSUER,
  keySetText,
  mint,
  signByHand,
  testKey,
} from './test/auth-fixture.ts';
import { FakeWorld } from './test/fake-world-fixture.ts';
import { key, openScene, outcome, outcomeOf } from './test/scene-fixture.ts';

describe('row 7: invalid_token', () => {
  test('a signature by another key', async () => {
    const scene = await openScene();
    const forged = await mint(await testKey('ES256', 'other'), scene.world.now());
    expect(await outcome(scene, `Bearer ${forged}`)).toBe('invalid_token');
  });

  test('a changed header, changed claims, no signature', async () => {
    const scene = await openScene();
    const [header, claims, signature] = (await mint(key, scene.world.now())).split('.') as [
      string,
      string,
      string,
    ];
    const more = encodePart(JSON.stringify({ ...goodClaims(scene.world.now()), sub: 'root' }));
    const otherHeader = encodePart('{"alg":"ES256","typ":"JWT"}');
    expect(await outcome(scene, `Bearer ${header}.${more}.${signature}`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${otherHeader}.${claims}.${signature}`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${header}.${claims}.`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${header}.${claims}.${signature}`)).toBe('granted');
  });

  test('keys in the header are never believed', async () => {
    const intruder = await testKey('ES256', 'intruder');
    const scene = await openScene();
    for (const header of [
      { jwk: intruder.publicJwk },
      { jku: 'https://intruder.test/jwks.json' },
      { x5u: 'https://intruder.test/cert.pem' },
      { x5c: ['MIIB'] },
    ]) {
      const token = await mint(intruder, scene.world.now(), { header });
      expect(await outcome(scene, `Bearer ${token}`)).toBe('invalid_token');
      // Unknown header members do not invalidate a token that a registered key has signed.
      expect(await outcomeOf({ header }, scene)).toBe('granted');
    }
    expect(scene.world.fetchCount).toBe(0);
  });

  test.each([
    ['crit', { crit: ['exp'] }],
    ['an empty crit', { crit: [] }],
    ['crit with b64', { crit: ['b64'], b64: true }],
    ['another typ', { typ: 'at+jwt' }],
    ['a typ that is no string', { typ: 1 }],
    ['a typ that only begins well', { typ: 'JWTX' }],
    ['an empty typ', { typ: '' }],
    ['a typ that lacks the hyphen', { typ: 'xcap+jwt' }],
    ['a typ that is a capability of another form', { typ: 'archive-cap+jwe' }],
    ['a typ that goes on', { typ: 'archive-cap+jwt+x' }],
    ['a kid that is no string', { kid: 1 }],
    ['an unknown kid', { kid: 'unknown' }],
  ])('header with %s', async (_, header) => {
    expect(await outcomeOf({ header })).toBe('invalid_token');
  });

  const seconds = Math.floor(new FakeWorld().now() / 1000);
  test.each<[string, Record<string, unknown>]>([
    ['no aud', { aud: undefined }],
    ['another aud', { aud: 'holdfast' }],
    ['aud in another case', { aud: AUDIENCE.toUpperCase() }],
    ['an array without the audience', { aud: ['a', 'b'] }],
    ['an array with something else than strings', { aud: [AUDIENCE, 1] }],
    ['no exp', { exp: undefined }],
    ['exp as text', { exp: String(seconds + 300) }],
    ['exp beyond numbers', { exp: Number.MAX_VALUE }],
    ['no iat', { iat: undefined }],
    ['iat null', { iat: null }],
    ['nbf as text', { nbf: '1' }],
    ['nbf null', { nbf: null }],
    ['no ver', { ver: undefined }],
    ['ver 2', { ver: 2 }],
    ['ver as text', { ver: '1' }],
    ['no spaceId', { spaceId: undefined }],
    ['an empty spaceId', { spaceId: '' }],
    ['spaceId as number', { spaceId: 1 }],
    ['no permissions', { permissions: undefined }],
    ['permissions as text', { permissions: 'cas:nodes:read' }],
    ['permissions with a number', { permissions: ['cas:nodes:read', 1] }],
    ['sub as number', { sub: 1 }],
    ['jti null', { jti: null }],
    ['iat over 30 s ahead', { iat: seconds + 31 }],
    ['iat over 30 s ahead of an nbf that is past', { iat: seconds + 31, nbf: 1 }],
    ['nbf over 30 s ahead', { nbf: seconds + 31 }],
    ['exp 30 s ago', { iat: seconds - 60, exp: seconds - 30 }],
    ['a lifetime of 24 h and 1 s', { exp: seconds + 86_401 }],
  ])('claims with %s', async (_, claims) => {
    expect(await outcomeOf({ claims })).toBe('invalid_token');
  });

  test.each<[string, Record<string, unknown>]>([
    ['iat 30 s ahead', { iat: seconds + 30 }],
    ['nbf 30 s ahead', { nbf: seconds + 30 }],
    ['exp 29 s ago', { iat: seconds - 60, exp: seconds - 29 }],
    ['a lifetime of 24 h', { exp: seconds + 86_400 }],
    ['no permission at all but the one needed', { permissions: ['cas:nodes:read'] }],
  ])('not for %s', async (_, claims) => {
    expect(await outcomeOf({ claims })).toBe('granted');
  });

  test("the App's own maximum lifetime", async () => {
    const scene = await openScene({ tokenLifetimeMsMax: 60_000 });
    expect(await outcomeOf({ claims: { exp: seconds + 60 } }, scene)).toBe('granted');
    expect(await outcomeOf({ claims: { exp: seconds + 61 } }, scene)).toBe('invalid_token');
  });

  test('claims nested deeper than the limit are no JWT', async () => {
    const scene = await openScene();
    const deep = `{"iss":"${ISSUER}","x":${'['.repeat(16)}${']'.repeat(16)}}`;
    const token = await signByHand(key, { alg: 'ES256' }, deep);
    expect(await outcome(scene, `Bearer ${token}`)).toBe('invalid_token');
  });
});

describe('which key', () => {
  test('kid selects; without one exactly one key must fit the algorithm', async () => {
    const other = await testKey('ES256', 'other');
    const edwards = await testKey('EdDSA');
    const jwks = keySetText(
      { ...key.publicJwk, kid: 'a' },
      { ...other.publicJwk, kid: 'b' },
      { ...edwards.publicJwk, kid: 'a' },
    );
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    const now = scene.world.now();
    const tokens: [string, string][] = [
      [await mint(key, now, { header: { kid: 'a' } }), 'granted'],
      [await mint(other, now, { header: { kid: 'b' } }), 'granted'],
      [await mint(key, now, { header: { kid: 'b' } }), 'invalid_token'],
      [await mint(key, now), 'invalid_token'],
      [await mint(edwards, now), 'granted'],
      [await mint(edwards, now, { header: { kid: 'a' } }), 'granted'],
      [await mint(edwards, now, { header: { kid: 'b' } }), 'invalid_token'],
    ];
    for (const [token, expected] of tokens) expect(await outcome(scene, `Bearer ${token}`)).toBe(expected);
  });

  test('a key restricted by alg, use or key_ops serves nothing else', async () => {
    const rsa = await testKey('PS256');
    for (const members of [{ alg: 'RS256' }, { use: 'enc' }, { key_ops: ['encrypt'] }]) {
      const jwks = keySetText({ ...rsa.publicJwk, ...members });
      const scene = await openScene({ keys: { kind: 'static', jwks } });
      expect(await outcome(scene, `Bearer ${await mint(rsa, scene.world.now())}`)).toBe('invalid_token');
    }
    const jwks = keySetText({ ...rsa.publicJwk, alg: 'PS256', use: 'sig', key_ops: ['verify'] });
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    expect(await outcome(scene, `Bearer ${await mint(rsa, scene.world.now())}`)).toBe('granted');
  });

  test('several keys with one kid and algorithm fit none', async () => {
    const other = await testKey('ES256', 'other');
    const jwks = keySetText({ ...key.publicJwk, kid: 'a' }, { ...other.publicJwk, kid: 'a' });
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    expect(await outcomeOf({ header: { kid: 'a' } }, scene)).toBe('invalid_token');
  });
});
