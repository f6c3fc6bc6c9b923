/** Rows 1 to 5 and the signature half of row 7: what is a token at all, and whose is it. */
import { createHmac, createPublicKey, generateKeyPairSync } from 'node:crypto';
import type { Answer } from '../answer.ts';
import { expectError, expectStatus, expectThat } from '../expect.ts';
import { randomHash } from '../node-bytes.ts';
import { OPERATION_NAMES } from '../space-client.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import {
  algorithmOf,
  base64url,
  type Fields,
  goodClaims,
  goodHeader,
  mintToken,
  type PrivateJwk,
  segment,
  signBytes,
} from '../tokens.ts';

/** 401 with its code and the challenge that the contract asks for. */
export function expectUnauthorized(answer: Answer, code: string, why: string): void {
  expectError(answer, 401, code, why);
  const challenge = answer.headers.get('www-authenticate') ?? '';
  expectThat(/^Bearer\b/i.test(challenge), 'WWW-Authenticate: Bearer', challenge || '(absent)', answer);
  const error = /\berror="([^"]*)"/.exec(challenge)?.[1];
  const known = error === 'invalid_token' || error === 'invalid_request' || error === 'insufficient_scope';
  expectThat(known, 'an RFC 6750 error in WWW-Authenticate', challenge, answer);
}

function bearing({ client }: CheckContext, authorization: string | undefined): Promise<Answer> {
  return client.call('getUsage', { headers: { authorization } });
}

/** A token of raw parts, signed by the identity's key over exactly these parts. */
function rawToken({ client, target }: CheckContext, parts: { header?: string; payload?: string }): string {
  const header = parts.header ?? segment(goodHeader(client.identity));
  const payload = parts.payload ?? segment(goodClaims(client.identity, client.spaceId, target.now()));
  const { key } = client.identity;
  return `${header}.${payload}.${base64url(signBytes(key, algorithmOf(key), `${header}.${payload}`))}`;
}

async function missingToken({ client }: CheckContext): Promise<void> {
  for (const operation of OPERATION_NAMES) {
    const answer = await client.call(operation, {
      hash: randomHash(),
      headers: { authorization: undefined },
    });
    expectUnauthorized(answer, 'missing_token', `${operation} without Authorization`);
  }
}

async function notBearer(context: CheckContext): Promise<void> {
  const token = context.client.token();
  for (const value of [
    'Basic dXNlcjpwYXNz',
    token,
    `Token ${token}`,
    'Bearer',
    `Bearer ${token} x`,
    `Bearer${token}`,
    'Bearer ,',
    `DPoP ${token}`,
  ]) {
    expectUnauthorized(await bearing(context, value), 'invalid_token', 'not Bearer <token>');
  }
}

async function notJwt(context: CheckContext): Promise<void> {
  const [header, payload, signature] = context.client.token().split('.') as [string, string, string];
  const forms = {
    'a word': 'abc',
    'two parts': `${header}.${payload}`,
    'four parts': `${header}.${payload}.${signature}.x`,
    'five parts': `${header}..${payload}.${signature}.x`,
    'three empty parts': '..',
    'not base64url': `${header}.${payload.slice(0, -1)}!.${signature}`,
    'header not JSON': `${base64url('{"alg":')}.${payload}.${signature}`,
    'header an array': `${base64url('["ES256"]')}.${payload}.${signature}`,
    'header a string': `${base64url('"ES256"')}.${payload}.${signature}`,
    'payload not JSON': rawToken(context, { payload: base64url('iss') }),
    'payload an array': rawToken(context, { payload: base64url('[]') }),
    'payload null': rawToken(context, { payload: base64url('null') }),
    'header invalid UTF-8': `${base64url(new Uint8Array([0x7b, 0xff, 0x7d]))}.${payload}.${signature}`,
  };
  for (const [what, token] of Object.entries(forms)) {
    expectUnauthorized(await bearing(context, `Bearer ${token}`), 'invalid_token', `not a JWT: ${what}`);
  }
}

async function noIssuerOrAlgorithm(context: CheckContext): Promise<void> {
  const { client } = context;
  const token = (header: Fields, claims: Fields) =>
    mintToken(client.identity, client.spaceId, context.target.now(), { header, claims });
  const forms = {
    'no iss': token({}, { iss: undefined }),
    'iss a number': token({}, { iss: 1 }),
    'iss null': token({}, { iss: null }),
    'no alg': token({ alg: undefined }, {}),
    'alg a number': token({ alg: 256 }, {}),
    'alg null': token({ alg: null }, {}),
    'no iss and alg none': token({ alg: 'none' }, { iss: undefined }),
  };
  for (const [what, forged] of Object.entries(forms)) {
    expectUnauthorized(await bearing(context, `Bearer ${forged}`), 'invalid_token', what);
  }
}

const UNSUPPORTED = [
  'none',
  'None',
  'NONE',
  'HS256',
  'HS384',
  'HS512',
  'RS384',
  'RS512',
  'PS384',
  'PS512',
  'ES512',
  'ES256K',
  'es256',
  'RSA-OAEP',
  'dir',
  'A128KW',
  'XX',
  '',
];

async function unsupportedAlgorithms(context: CheckContext): Promise<void> {
  const { client, target } = context;
  for (const alg of UNSUPPORTED) {
    const token = mintToken(client.identity, client.spaceId, target.now(), { header: { alg } });
    const answer = await bearing(context, `Bearer ${token}`);
    if (alg === '') expectThat(answer.status === 401, '401 for an empty alg', answer.status, answer);
    else expectUnauthorized(answer, 'unsupported_algorithm', `alg ${alg}`);
  }
}

async function unsignedToken(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const token = mintToken(client.identity, client.spaceId, target.now(), {
    header: { alg: 'none' },
    signature: new Uint8Array(),
  });
  expectUnauthorized(
    await bearing(context, `Bearer ${token}`),
    'unsupported_algorithm',
    'alg none, no signature',
  );
}

/** The classic confusion: the public key, which everyone knows, used as an HMAC secret. */
async function hmacWithPublicKey(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const publicKey = createPublicKey({ key: publicJwk(client.identity.key), format: 'jwk' });
  const secrets = [
    publicKey.export({ type: 'spki', format: 'pem' }) as string,
    JSON.stringify(publicJwk(client.identity.key)),
  ];
  for (const secret of secrets) {
    const message = `${segment({ ...goodHeader(client.identity), alg: 'HS256' })}.${segment(goodClaims(client.identity, client.spaceId, target.now()))}`;
    const signature = createHmac('sha256', secret).update(message).digest();
    expectUnauthorized(
      await bearing(context, `Bearer ${message}.${base64url(signature)}`),
      'unsupported_algorithm',
      'HS256 with the public key',
    );
  }
}

function publicJwk(key: PrivateJwk): JsonWebKey {
  const secret = new Set(['d', 'p', 'q', 'dp', 'dq', 'qi', 'key_ops', 'ext', 'use']);
  return Object.fromEntries(Object.entries(key).filter(([name]) => !secret.has(name)));
}

async function unknownIssuers(context: CheckContext): Promise<void> {
  const { issuer } = context.client.identity;
  const others = [
    `${issuer}/`,
    `${issuer} `,
    issuer.toUpperCase() === issuer ? issuer.toLowerCase() : issuer.toUpperCase(),
    'https://nobody.invalid',
    context.client.appId + issuer,
  ];
  for (const iss of others) {
    const answer = await context.client.withClaims({ iss }).call('getUsage');
    expectUnauthorized(answer, 'unknown_issuer', 'an issuer nobody registered');
  }
}

async function rowThreeBeforeFour({ client }: CheckContext): Promise<void> {
  const answer = await client
    .withToken({ header: { alg: 'HS256' }, claims: { iss: 'https://nobody.invalid' } })
    .call('getUsage');
  expectUnauthorized(answer, 'unsupported_algorithm', 'row 3 before row 4');
}

async function rowFourBeforeSeven({ client }: CheckContext): Promise<void> {
  const claims = { iss: 'https://nobody.invalid', exp: 1, ver: 9 };
  const answer = await client.withToken({ claims, signature: new Uint8Array(64) }).call('getUsage');
  expectUnauthorized(answer, 'unknown_issuer', 'row 4 before row 7');
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

async function badSignatures(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const [header, payload, signature] = client.token().split('.') as [string, string, string];
  const bytes = Buffer.from(signature, 'base64url');
  const flipped = Buffer.from(bytes);
  flipped[0] = (flipped[0] ?? 0) ^ 1;
  const claims = goodClaims(client.identity, client.spaceId, target.now());
  const forms = {
    'a flipped bit': `${header}.${payload}.${base64url(flipped)}`,
    'a cut signature': `${header}.${payload}.${base64url(bytes.subarray(0, -1))}`,
    'a longer signature': `${header}.${payload}.${base64url(Buffer.concat([bytes, Buffer.from([0])]))}`,
    'no signature': `${header}.${payload}.`,
    'a zero signature': `${header}.${payload}.${base64url(Buffer.alloc(bytes.length))}`,
    'another payload': `${header}.${segment({ ...claims, sub: 'someone else' })}.${signature}`,
    'another header': `${segment({ ...goodHeader(client.identity), typ: 'jwt' })}.${payload}.${signature}`,
    'a stranger’s key': mintToken(client.identity, client.spaceId, target.now(), {
      key: strangerKey(client.identity.key),
    }),
  };
  for (const [what, token] of Object.entries(forms)) {
    expectUnauthorized(await bearing(context, `Bearer ${token}`), 'invalid_token', what);
  }
}

async function keysInTheToken({ client }: CheckContext): Promise<void> {
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
    expectUnauthorized(answer, 'invalid_token', `a stranger's key offered by ${what}`);
  }
}

async function criticalHeaders({ client }: CheckContext): Promise<void> {
  for (const header of [
    { crit: ['exp'] },
    { crit: ['b64'], b64: true },
    { crit: ['x'], x: 1 },
    { crit: [] },
    { crit: 'exp' },
  ]) {
    expectUnauthorized(
      await client.withToken({ header }).call('getUsage'),
      'invalid_token',
      `crit ${JSON.stringify(header)}`,
    );
  }
}

async function keyIds({ client }: CheckContext): Promise<void> {
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
    expectUnauthorized(
      await client.withToken({ header: { kid } }).call('getUsage'),
      'invalid_token',
      `kid ${JSON.stringify(kid)}`,
    );
  }
}

async function keyIdAbsent({ client }: CheckContext): Promise<void> {
  expectStatus(await client.withToken({ header: { kid: undefined } }).call('getUsage'), 200, 'one key fits');
}

async function otherAlgorithmThanKey({ client }: CheckContext): Promise<void> {
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
}

async function tokenTypes({ client }: CheckContext): Promise<void> {
  const good = [
    'JWT',
    'jwt',
    'cas-cap+jwt',
    'CAS-CAP+JWT',
    'application/cas-cap+jwt',
    'application/jwt',
    'Application/JWT',
    undefined,
  ];
  for (const typ of good) {
    expectStatus(await client.withToken({ header: { typ } }).call('getUsage'), 200, `typ ${typ ?? 'absent'}`);
  }
  for (const typ of [
    'at+jwt',
    'JOSE',
    'JWE',
    'cas-cap',
    'text/jwt',
    'application/',
    '',
    ' JWT',
    1,
    null,
    ['JWT'],
  ]) {
    expectUnauthorized(
      await client.withToken({ header: { typ } }).call('getUsage'),
      'invalid_token',
      `typ ${JSON.stringify(typ)}`,
    );
  }
}

async function secondKey({ client, target }: CheckContext): Promise<void> {
  const second = target.options.secondIdentity;
  if (!second) return;
  const header = { alg: algorithmOf(second.key), kid: second.key.kid };
  const answer = await client.withToken({ key: second.key, header }).call('getUsage');
  expectUnauthorized(answer, 'invalid_token', "another App's key under this issuer");
}

const row = (number: number, text: string): string => `contract 3, row ${number}: ${text}`;

export const authTokenChecks: readonly Check[] = [
  check(
    'auth.missing',
    row(1, 'no Authorization header → 401 missing_token'),
    'every operation asks for a token',
    missingToken,
  ),
  check(
    'auth.not-bearer',
    row(2, 'not Bearer <token> → 401 invalid_token'),
    'only Bearer and one token',
    notBearer,
  ),
  check('auth.not-jwt', row(2, 'not a JWT → 401 invalid_token'), 'anything that is no compact JWT', notJwt),
  check(
    'auth.no-iss-alg',
    row(2, 'no iss/alg → 401 invalid_token'),
    'a token names its issuer and algorithm',
    noIssuerOrAlgorithm,
  ),
  check(
    'auth.unsupported-alg',
    row(3, 'alg not supported → 401 unsupported_algorithm'),
    'only the five algorithms',
    unsupportedAlgorithms,
  ),
  check('auth.alg-none', row(3, 'never none'), 'an unsigned token', unsignedToken),
  check('auth.alg-hmac', row(3, 'never HMAC'), 'the public key is no HMAC secret', hmacWithPublicKey),
  check(
    'auth.unknown-issuer',
    row(4, 'issuer not registered → 401 unknown_issuer'),
    'issuers are compared exactly',
    unknownIssuers,
  ),
  check('auth.order-3-4', row(3, 'checks run in this order'), 'algorithm before issuer', rowThreeBeforeFour),
  check(
    'auth.order-4-7',
    row(4, 'checks run in this order'),
    'issuer before signature and claims',
    rowFourBeforeSeven,
  ),
  check(
    'auth.signature',
    row(7, 'signature → 401 invalid_token'),
    'every forged signature is refused',
    badSignatures,
  ),
  check(
    'auth.embedded-keys',
    'contract 3: jwk, jku, x5u, x5c are never followed',
    'keys named by the token are not used',
    keysInTheToken,
  ),
  check('auth.crit', 'contract 3: crit is rejected', 'any crit header is refused', criticalHeaders),
  check('auth.kid', 'contract 3: kid selects the key', 'an unknown or malformed kid is refused', keyIds),
  check(
    'auth.kid-absent',
    'contract 3: kid may be absent only if exactly one registered key fits',
    'one key needs no kid',
    keyIdAbsent,
    'single-key',
  ),
  check(
    'auth.alg-not-of-key',
    row(7, 'no key that fits kid and alg'),
    'a key serves its own algorithm only',
    otherAlgorithmThanKey,
  ),
  check('auth.typ', 'contract 3: typ, if present, is JWT or cas-cap+jwt', 'token types', tokenTypes),
  check('auth.key-of-other-app', row(7, 'signature'), 'the key of another issuer', secondKey, 'second-app'),
];
