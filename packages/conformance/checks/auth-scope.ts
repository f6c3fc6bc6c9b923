/** Rows 8, 9 and 10: the Space, the permission, the refDomain; and that nothing is judged before the token. */
import { expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, randomHash } from '../node-bytes.ts';
import { OPERATION_NAMES, OPERATIONS, type OperationName } from '../space-client.ts';
import { type Check, check, row } from '../suite.ts';
import { type Fields, PERMISSIONS } from '../tokens.ts';
import { expectUnauthorized } from './auth-tokens.ts';

const ROOT_REF_OPERATIONS: readonly OperationName[] = ['listRootRefs', 'updateRootRefs'];
const BAD_DOMAINS = [
  '',
  'A',
  'Ab',
  '1a',
  'a:',
  ':a',
  'a::b',
  'a_b',
  'a-b',
  'a.b',
  'a b',
  ' a',
  'a ',
  'a\n',
  'é',
  'aé',
  `a${'b'.repeat(64)}`,
  '*',
  1,
  null,
  true,
  ['a'],
  { a: 1 },
];
const GOOD_DOMAINS = ['a', 'a1', 'a'.repeat(64), 'a:b', 'a:0', 'a:b:c1:2', `a${':b'.repeat(31)}`];

export const authScopeChecks: readonly Check[] = [
  check(
    'auth.scope',
    row(8, 'App or Space differ → 403 resource_scope_mismatch'),
    'a token is good for its App and Space alone',
    async ({ client, newSpace }) => {
      const other = newSpace();
      for (const operation of OPERATION_NAMES) {
        const path = other.path(operation, randomHash());
        const answer = await client.request(OPERATIONS[operation].method, path);
        expectError(answer, 403, 'resource_scope_mismatch', `${operation} in another Space`);
      }
      const upper = client.appId.toUpperCase();
      const otherCase = upper === client.appId ? client.appId.toLowerCase() : upper;
      for (const appId of ['other', otherCase, `${client.appId}x`, `${client.appId} `]) {
        const app = encodeURIComponent(appId);
        const answer = await client.request('GET', client.path('getUsage', undefined, app));
        expectError(answer, 403, 'resource_scope_mismatch', `App ${app} in the path`);
      }
      for (const spaceId of [
        `${client.spaceId} `,
        client.spaceId.toUpperCase(),
        `${client.spaceId}%20`,
        `${client.spaceId}/../x`,
      ]) {
        const answer = await client.withClaims({ spaceId }).call('getUsage');
        expectError(answer, 403, 'resource_scope_mismatch', 'another spaceId in the claim');
      }
    },
  ),
  check(
    'auth.issuer-of-other-app',
    row(8, "issuer's App ≠ path appId → 403 resource_scope_mismatch"),
    'an issuer speaks for one App',
    'second-app',
    async ({ client, target }) => {
      const second = target.options.secondIdentity;
      if (!second) return;
      const token = client.asIdentity(second).token();
      const answer = await client.call('getUsage', { headers: { authorization: `Bearer ${token}` } });
      expectError(answer, 403, 'resource_scope_mismatch', "another App's issuer on this App's path");
    },
  ),
  check(
    'auth.permissions',
    row(9, 'exact permission absent → 403 insufficient_permission'),
    'each operation asks for its own authority',
    async ({ client }) => {
      for (const operation of OPERATION_NAMES) {
        const { authority } = OPERATIONS[operation];
        const without = client.withClaims({
          permissions: PERMISSIONS.filter((permission) => permission !== authority),
        });
        const hash = randomHash();
        expectError(
          await without.call(operation, { hash }),
          403,
          'insufficient_permission',
          `${operation} with all but ${authority}`,
        );
        const answer = await client.withClaims({ permissions: [authority] }).call(operation, { hash });
        expectThat(
          answer.status !== 403 && answer.status !== 401,
          `${operation} with ${authority} alone is authorized`,
          answer.status,
          answer,
        );
      }
    },
  ),
  check(
    'auth.permission-exact',
    row(9, 'exact permission absent → 403 insufficient_permission'),
    'no wildcard, prefix, case or list stands for it',
    async ({ client }) => {
      const almost = [
        '*',
        'cas:*',
        'cas:usage',
        'cas:usage:*',
        'CAS:USAGE:READ',
        'cas:usage:read ',
        ' cas:usage:read',
        'cas:usage:read:x',
        'cas:nodes:read cas:usage:read',
        'cas:usage:read,cas:gc:execute',
        '',
      ];
      for (const permission of almost) {
        const answer = await client.withClaims({ permissions: [permission] }).call('getUsage');
        expectError(answer, 403, 'insufficient_permission', `permission ${JSON.stringify(permission)}`);
      }
      expectError(
        await client.withClaims({ permissions: [] }).call('getUsage'),
        403,
        'insufficient_permission',
        'no permission at all',
      );
    },
  ),
  check(
    'auth.ref-domain',
    row(10, 'root-ref operation without a valid refDomain → 403 resource_scope_mismatch'),
    'refDomain forms',
    async ({ client }) => {
      for (const refDomain of [undefined, ...BAD_DOMAINS]) {
        const sender = client.withClaims({ refDomain });
        for (const operation of ROOT_REF_OPERATIONS) {
          expectError(
            await sender.call(operation),
            403,
            'resource_scope_mismatch',
            `refDomain ${JSON.stringify(refDomain) ?? 'absent'}`,
          );
        }
        expectStatus(await sender.call('getUsage'), 200, 'a wrong refDomain counts as absent: row 10 only');
      }
      for (const refDomain of GOOD_DOMAINS) {
        const page = await client.inDomain(refDomain).page();
        expectThat(page.refDomain === refDomain, `refDomain ${refDomain} in the page`, page.refDomain);
      }
    },
  ),
  check(
    'auth.order-later',
    row(8, 'checks run in this order'),
    'rows 7, 8, 9 and 10 in order',
    async ({ client }) => {
      const expired = { exp: 1, iat: 0 };
      const cases: readonly (readonly [string, Fields, number, string])[] = [
        ['7 before 8', { ...expired, spaceId: 'elsewhere' }, 401, 'invalid_token'],
        ['7 before 9', { ...expired, permissions: [] }, 401, 'invalid_token'],
        ['7 before 10', { ...expired, refDomain: undefined }, 401, 'invalid_token'],
        ['8 before 9', { spaceId: 'elsewhere', permissions: [] }, 403, 'resource_scope_mismatch'],
        ['9 before 10', { permissions: [], refDomain: undefined }, 403, 'insufficient_permission'],
      ];
      for (const [order, claims, status, code] of cases) {
        expectError(await client.withClaims(claims).call('listRootRefs'), status, code, `row ${order}`);
      }
    },
  ),
  /** Everything a request can have wrong, behind a token that is wrong too. */
  check(
    'auth.first',
    'Capabilities: authorization comes before every other validation of a known route',
    'nothing is judged before the token',
    async ({ client }) => {
      const node = makeNode();
      const wrongs: readonly (readonly [OperationName, Parameters<typeof client.call>[1] & object])[] = [
        ['readContent', { hash: 'XYZ' }],
        ['readContent', { hash: node.hash, headers: { range: 'bytes=9-1' } }],
        ['readMetadata', { hash: node.hash, query: 'x=1' }],
        ['leaseNode', { hash: 'XYZ', body: '{' }],
        ['leaseNode', { hash: node.hash, body: '{}', headers: { 'content-type': 'text/plain' } }],
        ['runGc', { body: 'x'.repeat(1_100_000) }],
        ['listRootRefs', { query: 'limit=0&cursor=' }],
        ['updateRootRefs', { body: 'not JSON' }],
      ];
      for (const [operation, options] of wrongs) {
        const bare = await client.call(operation, {
          ...options,
          headers: { ...options.headers, authorization: undefined },
        });
        expectUnauthorized(bare, 'missing_token', `${operation}: authorization before the request itself`);
        const powerless = await client.withClaims({ permissions: [] }).call(operation, options);
        expectError(
          powerless,
          403,
          'insufficient_permission',
          `${operation}: authorization before the request itself`,
        );
      }
    },
  ),
];
