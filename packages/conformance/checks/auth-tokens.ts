import type { Answer } from '../answer.ts';
import { expectError, expectThat } from '../expect.ts';
import { randomHash } from '../node-bytes.ts';
import { OPERATION_NAMES } from '../space-client.ts';
import { type Check, type CheckContext, check, row } from '../suite.ts';
import {
  algorithmOf,
  base64url,
  type Fields,
  goodClaims,
  goodHeader,
  mintToken,
  segment,
  signBytes,
} from '../tokens.ts';

/** 401 with its code and the challenge of RFC 6750. */
export function expectUnauthorized(answer: Answer, code: string, why: string): void {
  expectError(answer, 401, code, why);
  const challenge = answer.headers.get('www-authenticate') ?? '';
  expectThat(/^Bearer\b/i.test(challenge), 'WWW-Authenticate: Bearer', challenge || '(absent)', answer);
  const error = /\berror="([^"]*)"/.exec(challenge)?.[1];
  const known = error === 'invalid_token' || error === 'invalid_request' || error === 'insufficient_scope';
  expectThat(known, 'an RFC 6750 error in WWW-Authenticate', challenge, answer);
}

export function expectInvalidToken(answer: Answer, why: string): void {
  expectUnauthorized(answer, 'invalid_token', why);
}

export function bearing({ client }: CheckContext, authorization: string | undefined): Promise<Answer> {
  return client.call('getUsage', { headers: { authorization } });
}

/** A token of raw parts, signed by the identity's key over exactly these parts. */
function rawToken({ client, target }: CheckContext, parts: { header?: string; payload?: string }): string {
  const header = parts.header ?? segment(goodHeader(client.identity));
  const payload = parts.payload ?? segment(goodClaims(client.identity, client.spaceId, target.tokenNow()));
  const { key } = client.identity;
  return `${header}.${payload}.${base64url(signBytes(key, algorithmOf(key), `${header}.${payload}`))}`;
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

export const authTokenChecks: readonly Check[] = [
  check(
    'auth.missing',
    row(1, 'no Authorization header → 401 missing_token'),
    'every operation asks for a token',
    async ({ client }) => {
      for (const operation of OPERATION_NAMES) {
        const answer = await client.call(operation, {
          hash: randomHash(),
          headers: { authorization: undefined },
        });
        expectUnauthorized(answer, 'missing_token', `${operation} without Authorization`);
      }
    },
  ),
  check(
    'auth.not-bearer',
    row(2, 'not Bearer <token> → 401 invalid_token'),
    'only Bearer and one token',
    async (context) => {
      const token = context.client.token();
      for (const value of [
        'Basic dXNlcjpwYXNz',
        token,
        `Token ${token}`,
        'Bearer',
        `Bearer ${token} x`,
        `Bearer${token}`,
        'Bearer ,',
        `Bearer ${token}, Bearer ${token}`,
        `DPoP ${token}`,
      ]) {
        expectInvalidToken(await bearing(context, value), 'not Bearer <token>');
      }
    },
  ),
  check(
    'auth.not-jwt',
    row(2, 'not a JWT → 401 invalid_token'),
    'anything that is no compact JWT',
    async (context) => {
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
        expectInvalidToken(await bearing(context, `Bearer ${token}`), `not a JWT: ${what}`);
      }
    },
  ),
  check(
    'auth.no-iss-alg',
    row(2, 'no iss/alg → 401 invalid_token'),
    'a token names its issuer and algorithm',
    async (context) => {
      const { client } = context;
      const token = (header: Fields, claims: Fields) =>
        mintToken(client.identity, client.spaceId, context.target.tokenNow(), { header, claims });
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
        expectInvalidToken(await bearing(context, `Bearer ${forged}`), what);
      }
    },
  ),
  check(
    'auth.unsupported-alg',
    row(3, 'alg not supported → 401 unsupported_algorithm'),
    'only the five algorithms',
    async (context) => {
      const { client, target } = context;
      for (const alg of UNSUPPORTED) {
        const token = mintToken(client.identity, client.spaceId, target.tokenNow(), { header: { alg } });
        const answer = await bearing(context, `Bearer ${token}`);
        if (alg === '') expectThat(answer.status === 401, '401 for an empty alg', answer.status, answer);
        else expectUnauthorized(answer, 'unsupported_algorithm', `alg ${alg}`);
      }
    },
  ),
  check('auth.alg-none', row(3, 'never none'), 'an unsigned token', async (context) => {
    const { client, target } = context;
    const token = mintToken(client.identity, client.spaceId, target.tokenNow(), {
      header: { alg: 'none' },
      signature: new Uint8Array(),
    });
    expectUnauthorized(
      await bearing(context, `Bearer ${token}`),
      'unsupported_algorithm',
      'alg none, no signature',
    );
  }),
  check(
    'auth.unknown-issuer',
    row(4, 'issuer not registered → 401 unknown_issuer'),
    'issuers are compared exactly',
    async (context) => {
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
    },
  ),
  check(
    'auth.order-3-4',
    row(3, 'checks run in this order'),
    'algorithm before issuer',
    async ({ client }) => {
      const answer = await client
        .withToken({ header: { alg: 'HS256' }, claims: { iss: 'https://nobody.invalid' } })
        .call('getUsage');
      expectUnauthorized(answer, 'unsupported_algorithm', 'row 3 before row 4');
    },
  ),
  check(
    'auth.order-4-7',
    row(4, 'checks run in this order'),
    'issuer before signature and claims',
    async ({ client }) => {
      const claims = { iss: 'https://nobody.invalid', exp: 1, ver: 9 };
      const answer = await client.withToken({ claims, signature: new Uint8Array(64) }).call('getUsage');
      expectUnauthorized(answer, 'unknown_issuer', 'row 4 before row 7');
    },
  ),
];
