import { describe, expect, test } from 'bun:test';
import { type AppRegistration, parseAppRegistration, RegistrationError } from './app-registration.ts';
import { keySetText, testKey } from './test/auth-fixture.ts';

const p256 = (await testKey('ES256')).publicJwk;
const other = (await testKey('ES256', 'other')).publicJwk;
const KEYS = { kind: 'static', jwks: keySetText(p256) } as const;

function register(change: Partial<AppRegistration>) {
  return parseAppRegistration({ appId: 'app', issuer: 'iss', audience: 'aud', keys: KEYS, ...change }, 7);
}

test('a good registration becomes an active record', async () => {
  expect(await register({})).toEqual({
    appId: 'app',
    issuer: 'iss',
    audience: 'aud',
    status: 'active',
    keys: KEYS,
    algorithms: undefined,
    tokenLifetimeMsMax: 86_400_000,
    quotas: { maxBytes: undefined, maxNodes: undefined },
    spaceQuotas: [],
    revocations: [],
    createdAt: 7,
    updatedAt: 7,
  });
});

test.each<[string, Partial<AppRegistration>]>([
  ['a URL over https', { keys: { kind: 'url', url: 'https://issuer.test/jwks.json' } }],
  ['a URL over http', { keys: { kind: 'url', url: 'http://127.0.0.1:1/jwks.json' } }],
  ['an id of other scripts', { appId: 'приложение 1/2' }],
  ['a narrower list', { algorithms: ['ES256', 'ES256', 'RS256'] }],
  ['a lifetime of 1 ms', { tokenLifetimeMsMax: 1 }],
])('accepted: %s', async (_, change) => {
  expect((await register(change)).status).toBe('active');
});

describe('turned down with one line that says why', () => {
  test.each<[string, Partial<AppRegistration>, string]>([
    ['an empty id', { appId: '' }, 'App id'],
    ['the id ..', { appId: '..' }, 'App id'],
    ['an id with a control character', { appId: 'a\nb' }, 'App id'],
    ['an id of 257 characters', { appId: 'a'.repeat(257) }, 'App id'],
    ['an empty issuer', { issuer: '' }, 'issuer'],
    ['a lone surrogate', { issuer: '\ud800' }, 'issuer'],
    ['a NUL', { issuer: 'a\u0000' }, 'issuer'],
    ['a URL with a NUL', { keys: { kind: 'url', url: 'https://issuer.test/\u0000' } }, 'http or https'],
    ['an audience too long', { audience: 'a'.repeat(2049) }, 'audience'],
    ['a lifetime of 0', { tokenLifetimeMsMax: 0 }, 'lifetime'],
    ['a fraction of a ms', { tokenLifetimeMsMax: 0.5 }, 'lifetime'],
    ['no algorithm', { algorithms: [] }, 'algorithms'],
    ['HMAC', { algorithms: ['ES256', 'HS256'] }, 'algorithms'],
    ['a file URL', { keys: { kind: 'url', url: 'file:///etc/passwd' } }, 'http or https'],
    [
      'the address of cloud metadata',
      { keys: { kind: 'url', url: 'http://169.254.169.254/latest' } },
      'link-local or metadata',
    ],
    ['no URL', { keys: { kind: 'url', url: 'issuer.test' } }, 'http or https'],
    ['a URL with a password', { keys: { kind: 'url', url: 'https://a:hunter2@issuer.test/' } }, 'password'],
    ['no JSON', { keys: { kind: 'static', jwks: 'BEGIN PUBLIC KEY' } }, 'not valid JSON'],
    ['an empty set', { keys: { kind: 'static', jwks: '{"keys":[]}' } }, 'no key in it'],
    ['a private key', { keys: { kind: 'static', jwks: keySetText({ ...p256, d: 'hunter2' }) } }, 'private'],
    [
      'a good and a private key',
      { keys: { kind: 'static', jwks: keySetText(p256, { ...other, kid: 'x', d: 'hunter2' }) } },
      'key 2',
    ],
    [
      'a symmetric key',
      { keys: { kind: 'static', jwks: '{"keys":[{"kty":"oct","k":"hunter2"}]}' } },
      'symmetric',
    ],
    [
      'a weak key',
      { keys: { kind: 'static', jwks: keySetText({ kty: 'RSA', n: 'u'.repeat(172), e: 'AQAB' }) } },
      '2048',
    ],
    [
      'a point off the curve',
      { keys: { kind: 'static', jwks: keySetText({ ...p256, x: other.x as string }) } },
      'no key for ES256',
    ],
    ['keys outside the narrower list', { algorithms: ['EdDSA'] }, 'EdDSA'],
  ])('%s', async (_, change, reason) => {
    const error = await register(change).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(RegistrationError);
    const { message } = error as RegistrationError;
    expect(message).toContain(reason);
    expect(message).not.toContain('hunter2');
    expect(message).not.toContain('\n');
  });
});
