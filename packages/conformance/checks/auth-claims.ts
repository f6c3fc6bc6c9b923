/** The claims half of row 7, and rows 6, 8, 9 and 10. */
import { expectError, expectStatus } from '../expect.ts';
import { randomHash } from '../node-bytes.ts';
import { OPERATION_NAMES } from '../space-client.ts';
import { type Check, type CheckContext, check, row } from '../suite.ts';
import { type Fields, PERMISSIONS } from '../tokens.ts';
import { expectInvalidToken, expectUnauthorized } from './auth-tokens.ts';

const DAY_S = 86_400;

async function refuseClaims(
  { client }: CheckContext,
  forms: Readonly<Record<string, Fields>>,
): Promise<void> {
  for (const [what, claims] of Object.entries(forms)) {
    expectInvalidToken(await client.withClaims(claims).call('getUsage'), what);
  }
}

async function acceptClaims(
  { client }: CheckContext,
  forms: Readonly<Record<string, Fields>>,
): Promise<void> {
  for (const [what, claims] of Object.entries(forms)) {
    expectStatus(await client.withClaims(claims).call('getUsage'), 200, what);
  }
}

function seconds(context: CheckContext): number {
  return Math.floor(context.target.tokenNow() / 1000);
}

export const authClaimChecks: readonly Check[] = [
  check(
    'auth.aud',
    row(7, 'aud → 401 invalid_token'),
    'the audience is exactly the App’s',
    async (context) => {
      const { audience } = context.client.identity;
      await acceptClaims(context, {
        'aud in an array': { aud: ['x', audience] },
        'aud alone in an array': { aud: [audience] },
      });
      await refuseClaims(context, {
        'no aud': { aud: undefined },
        'another aud': { aud: 'https://elsewhere.invalid' },
        'aud with a slash more': { aud: `${audience}/` },
        'aud in another case': {
          aud: audience.toUpperCase() === audience ? audience.toLowerCase() : audience.toUpperCase(),
        },
        'an array without it': { aud: ['x', 'y'] },
        'an empty array': { aud: [] },
        'aud an object': { aud: { [audience]: true } },
        'aud a number': { aud: 1 },
        'aud null': { aud: null },
        'aud a list in a string': { aud: `${audience} x` },
      });
    },
  ),
  check(
    'auth.times-accepted',
    'Capabilities: clock tolerance 30 s',
    'times within tolerance are good',
    async (context) => {
      const now = seconds(context);
      await acceptClaims(context, {
        'exp 20 s ago, within tolerance': { exp: now - 20, iat: now - 100 },
        'nbf 20 s ahead, within tolerance': { nbf: now + 20 },
        'nbf in the past': { nbf: now - 100 },
        'iat 20 s ahead, within tolerance': { iat: now + 20 },
        'iat long ago': { iat: now - 80_000 },
      });
    },
  ),
  check(
    'auth.times',
    row(7, 'times → 401 invalid_token'),
    'times missing, malformed or out of tolerance',
    async (context) => {
      const now = seconds(context);
      await refuseClaims(context, {
        'no exp': { exp: undefined },
        'no iat': { iat: undefined },
        'exp 40 s ago': { exp: now - 40, iat: now - 100 },
        'exp long ago': { exp: 1, iat: 0 },
        'exp a string': { exp: String(now + 300) },
        'exp null': { exp: null },
        'exp true': { exp: true },
        'exp in milliseconds': { exp: (now + 300) * 1000 },
        'iat a string': { iat: String(now) },
        'iat null': { iat: null },
        'nbf 60 s ahead': { nbf: now + 60 },
        'nbf a string': { nbf: String(now - 10) },
        'nbf null': { nbf: null },
      });
    },
  ),
  check(
    'auth.lifetime',
    row(7, 'lifetime → 401 invalid_token'),
    'exp − iat is at most the App’s maximum',
    async (context) => {
      const now = seconds(context);
      const most = Math.floor((context.client.identity.tokenLifetimeMsMax ?? DAY_S * 1000) / 1000);
      await acceptClaims(context, { 'exactly the maximum lifetime': { iat: now - 5, exp: now - 5 + most } });
      await refuseClaims(context, {
        'one second over the maximum lifetime': { iat: now - 5, exp: now - 4 + most },
        'a lifetime over the maximum, most of it past': { iat: now - most, exp: now + 60 },
        'a lifetime of years': { iat: now, exp: now + 365 * DAY_S },
      });
    },
  ),
  check(
    'auth.claim-shapes',
    row(7, 'ver and claim shapes → 401 invalid_token'),
    'claims of a wrong shape',
    async (context) => {
      await refuseClaims(context, {
        'no ver': { ver: undefined },
        'ver "1"': { ver: '1' },
        'ver 2': { ver: 2 },
        'ver 0': { ver: 0 },
        'ver true': { ver: true },
        'ver null': { ver: null },
        'ver [1]': { ver: [1] },
        'no spaceId': { spaceId: undefined },
        'spaceId empty': { spaceId: '' },
        'spaceId a number': { spaceId: 1 },
        'spaceId an array': { spaceId: [context.client.spaceId] },
        'spaceId null': { spaceId: null },
        'no permissions': { permissions: undefined },
        'permissions a string': { permissions: PERMISSIONS.join(' ') },
        'permissions an object': { permissions: { 'cas:usage:read': true } },
        'permissions null': { permissions: null },
        'permissions with a number': { permissions: [...PERMISSIONS, 1] },
        'permissions with null': { permissions: [...PERMISSIONS, null] },
        'permissions nested': { permissions: [[...PERMISSIONS]] },
        'sub a number': { sub: 1 },
        'jti a number': { jti: 1 },
        'jti an object': { jti: {} },
      });
      await acceptClaims(context, {
        'sub and jti strings': { sub: 'user:1', jti: 'a-b-c' },
        'claims nobody knows': { scope: 'x', roles: [1], admin: true },
      });
    },
  ),
  /** A capability that ends while the server may remember it. */
  check(
    'auth.expiry-of-remembered',
    'Capabilities: every request still checks expiry',
    'a token ends when it ends, used before or not',
    async ({ client, target, elapse }) => {
      const now = Math.floor(target.tokenNow() / 1000);
      const ending = client.withClaims({ iat: now - 100, exp: now - 22 });
      const token = ending.token();
      const call = () => client.call('getUsage', { headers: { authorization: `Bearer ${token}` } });
      expectStatus(await call(), 200, 'still within tolerance');
      await elapse(10_000);
      expectInvalidToken(await call(), 'every request checks expiry, also of a remembered token');
    },
  ),
  check(
    'auth.suspended',
    row(6, 'App suspended → 403 APP_SUSPENDED'),
    'a suspended App is answered so, before rows 7 to 10',
    'suspended-app',
    async ({ client, target }) => {
      const identity = target.options.suspendedIdentity;
      if (!identity) return;
      const other = client.asIdentity(identity);
      for (const operation of OPERATION_NAMES) {
        expectError(await other.call(operation, { hash: randomHash() }), 403, 'APP_SUSPENDED', operation);
      }
      const broken: Readonly<Record<string, ReturnType<typeof other.withClaims>>> = {
        'expired (row 7)': other.withClaims({ exp: 1, iat: 0 }),
        'forged (row 7)': other.withToken({ signature: new Uint8Array(64) }),
        'another Space (row 8)': other.withClaims({ spaceId: 'elsewhere' }),
        'no permission (row 9)': other.withClaims({ permissions: [] }),
      };
      for (const [what, sender] of Object.entries(broken)) {
        expectError(await sender.call('getUsage'), 403, 'APP_SUSPENDED', `row 6 before ${what}`);
      }
      expectUnauthorized(
        await other.withToken({ header: { alg: 'HS256' } }).call('getUsage'),
        'unsupported_algorithm',
        'row 3 before row 6',
      );
    },
  ),
];
