/** Row 7, the signature: which key may have made it, and what a token says about its own key. */
import { createHmac, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { expectError, expectStatus } from '../expect.ts';
import { type Check, check, row } from '../suite.ts';
import {
  algorithmOf,
  base64url,
  type Fields,
  goodClaims,
  goodHeader,
  mintToken,
  type PrivateJwk,
  segment,
} from '../tokens.ts';
import { bearing, expectInvalidToken, expectUnauthorized } from './auth-tokens.ts';

function publicJwk(key: PrivateJwk): JsonWebKey {
  const secret = new Set(['d', 'p', 'q', 'dp', 'dq', 'qi', 'key_ops', 'ext', 'use']);
  return Object.fromEntries(Object.entries(key).filter(([name]) => !secret.has(name)));
}

/** A fresh key of the same kind as the issuer's, that nobody registered. */
function strangerKey(like: PrivateJwk): PrivateJwk {
  const pair =
    like.kty === 'RSA'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : like.kty === 'OKP'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('ec', { namedCurve: like.crv ?? 'P-256' });
  return { ...pair.privateKey.export({ format: 'jwk' }), alg: algorithmOf(like) };
}

export const authKeyChecks: readonly Check[] = [
  /** The classic confusion: the public key, which everyone knows, used as an HMAC secret. */
  check('auth.alg-hmac', row(3, 'never HMAC'), 'the public key is no HMAC secret', async (context) => {
    const { client, target } = context;
    const publicKey = createPublicKey({ key: publicJwk(client.identity.key), format: 'jwk' });
    const secrets = [
      publicKey.export({ type: 'spki', format: 'pem' }) as string,
      JSON.stringify(publicJwk(client.identity.key)),
    ];
    for (const secret of secrets) {
      const message = `${segment({ ...goodHeader(client.identity), alg: 'HS256' })}.${segment(goodClaims(client.identity, client.spaceId, target.tokenNow()))}`;
      const signature = createHmac('sha256', secret).update(message).digest();
      expectUnauthorized(
        await bearing(context, `Bearer ${message}.${base64url(signature)}`),
        'unsupported_algorithm',
        'HS256 with the public key',
      );
    }
  }),
  check(
    'auth.signature',
    row(7, 'signature → 401 invalid_token'),
    'every forged signature is refused',
    async (context) => {
      const { client, target } = context;
      const [header, payload, signature] = client.token().split('.') as [string, string, string];
      const bytes = Buffer.from(signature, 'base64url');
      const flipped = Buffer.from(bytes);
      flipped[0] = (flipped[0] ?? 0) ^ 1;
      const claims = goodClaims(client.identity, client.spaceId, target.tokenNow());
      const forms = {
        'a flipped bit': `${header}.${payload}.${base64url(flipped)}`,
        'a cut signature': `${header}.${payload}.${base64url(bytes.subarray(0, -1))}`,
        'a longer signature': `${header}.${payload}.${base64url(Buffer.concat([bytes, Buffer.from([0])]))}`,
        'no signature': `${header}.${payload}.`,
        'a zero signature': `${header}.${payload}.${base64url(Buffer.alloc(bytes.length))}`,
        'another payload': `${header}.${segment({ ...claims, sub: 'someone else' })}.${signature}`,
        'another header': `${segment({ ...goodHeader(client.identity), typ: 'jwt' })}.${payload}.${signature}`,
        'a stranger’s key': mintToken(client.identity, client.spaceId, target.tokenNow(), {
          key: strangerKey(client.identity.key),
        }),
      };
      for (const [what, token] of Object.entries(forms)) {
        expectInvalidToken(await bearing(context, `Bearer ${token}`), what);
      }
    },
  ),
  check(
    'auth.embedded-keys',
    'Capabilities: jwk, jku, x5u, x5c are never followed',
    'keys named by the token are not used',
    async ({ client }) => {
      const stranger = strangerKey(client.identity.key);
      const jwk = publicJwk(stranger);
      const headers: Readonly<Record<string, Fields>> = {
        jwk: { jwk },
        'jwk without kid': { jwk, kid: undefined },
        jku: { jku: 'http://127.0.0.1:9/keys.json' },
        x5u: { x5u: 'http://127.0.0.1:9/cert.pem' },
        x5c: { x5c: ['MIIB'] },
      };
      for (const [what, header] of Object.entries(headers)) {
        const answer = await client.withToken({ key: stranger, header }).call('getUsage');
        expectInvalidToken(answer, `a stranger's key offered by ${what}`);
      }
    },
  ),
  check('auth.crit', 'Capabilities: crit is rejected', 'any crit header is refused', async ({ client }) => {
    for (const header of [
      { crit: ['exp'] },
      { crit: ['b64'], b64: true },
      { crit: ['x'], x: 1 },
      { crit: [] },
      { crit: 'exp' },
    ]) {
      const answer = await client.withToken({ header }).call('getUsage');
      expectInvalidToken(answer, `crit ${JSON.stringify(header)}`);
    }
  }),
  check(
    'auth.kid',
    'Capabilities: kid selects the key',
    'an unknown or malformed kid is refused',
    async ({ client }) => {
      for (const kid of [
        'nobody',
        '',
        `${client.identity.key.kid ?? ''}x`,
        1,
        null,
        ['a'],
        '../../etc/passwd',
        "' or 1=1",
      ]) {
        const answer = await client.withToken({ header: { kid } }).call('getUsage');
        expectInvalidToken(answer, `kid ${JSON.stringify(kid)}`);
      }
    },
  ),
  check(
    'auth.kid-absent',
    'Capabilities: kid may be absent only if exactly one registered key fits',
    'one key needs no kid',
    'single-key',
    async ({ client }) => {
      expectStatus(
        await client.withToken({ header: { kid: undefined } }).call('getUsage'),
        200,
        'one key fits',
      );
    },
  ),
  check(
    'auth.alg-not-of-key',
    row(7, 'no key that fits kid and alg'),
    'a key serves its own algorithm only',
    async ({ client }) => {
      const mine = algorithmOf(client.identity.key);
      for (const alg of ['ES256', 'ES384', 'EdDSA', 'PS256', 'RS256'].filter((name) => name !== mine)) {
        const answer = await client.withToken({ header: { alg } }).call('getUsage');
        // An issuer that narrowed its own list answers by row 3, any other by row 7.
        expectError(
          answer,
          401,
          ['invalid_token', 'unsupported_algorithm'],
          `alg ${alg} with a key that is not for it`,
        );
      }
    },
  ),
  check(
    'auth.typ',
    'Capabilities: typ, if present, is JWT or ends in -cap+jwt',
    'token types',
    async ({ client }) => {
      const good = [
        'JWT',
        'jwt',
        'cas-cap+jwt',
        'CAS-CAP+JWT',
        'application/cas-cap+jwt',
        'archive-cap+jwt',
        'Archive-CAP+jwt',
        'application/archive-cap+jwt',
        'application/jwt',
        'Application/JWT',
        undefined,
      ];
      for (const typ of good) {
        expectStatus(
          await client.withToken({ header: { typ } }).call('getUsage'),
          200,
          `typ ${typ ?? 'absent'}`,
        );
      }
      for (const typ of [
        'at+jwt',
        'JOSE',
        'JWE',
        'cas-cap',
        'xcap+jwt',
        'cap+jwt',
        'archive-cap',
        'archive-cap+jwt;v=1',
        'archive-cap+jwe',
        'text/jwt',
        'application/',
        '',
        ' JWT',
        1,
        null,
        ['JWT'],
      ]) {
        const answer = await client.withToken({ header: { typ } }).call('getUsage');
        expectInvalidToken(answer, `typ ${JSON.stringify(typ)}`);
      }
    },
  ),
  check(
    'auth.key-of-other-app',
    row(7, 'signature'),
    'the key of another issuer',
    'second-app',
    async ({ client, target }) => {
      const second = target.options.secondIdentity;
      if (!second) return;
      const header = { alg: algorithmOf(second.key), kid: second.key.kid };
      const answer = await client.withToken({ key: second.key, header }).call('getUsage');
      expectInvalidToken(answer, "another App's key under this issuer");
    },
  ),
];
