/** Routes, authority and headers of Bulk: those of the Space API. */
import type { Answer } from '../answer.ts';
import { BULK_OPERATION_NAMES, BULK_OPERATIONS, BulkClient, type BulkOperationName } from '../bulk-client.ts';
import {
  expectEqual,
  expectError,
  expectHeader,
  expectNotFound,
  expectStatus,
  expectThat,
} from '../expect.ts';
import { makeNode, randomHash } from '../node-bytes.ts';
import { plainRecord } from '../pack-bytes.ts';
import type { CallOptions, SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import { PERMISSIONS } from '../tokens.ts';
import { expectNamed, expectTiming } from './headers.ts';

const ROUTES = 'Bulk: many nodes in few requests: a root of its own';
const RULES =
  'Bulk: many nodes in few requests: capabilities, the order of checks and headers are those of the Space API';

function needed(operation: BulkOperationName): CallOptions {
  if (operation === 'leasePack') return { json: { leaseDurationMs: 1 } };
  if (operation === 'readNodes') return { json: { hashes: [randomHash()] } };
  return { json: { leaseDurationMs: 1, hashes: [randomHash()] } };
}

async function expectRefusals(client: SpaceClient, operation: BulkOperationName): Promise<void> {
  const { authority } = BULK_OPERATIONS[operation];
  const at = (space: SpaceClient, options: CallOptions = needed(operation)): Promise<Answer> =>
    new BulkClient(space).call(operation, options);
  const wrong: CallOptions = { body: 'no JSON', query: 'a=1' };
  const none = await at(client, { ...wrong, headers: { authorization: undefined } });
  expectError(none, 401, 'missing_token', operation);
  expectThat(
    /^Bearer/.test(none.headers.get('www-authenticate') ?? ''),
    'WWW-Authenticate: Bearer',
    none.headers.get('www-authenticate'),
    none,
  );
  expectError(
    await at(client, { ...wrong, headers: { authorization: 'Bearer x' } }),
    401,
    'invalid_token',
    operation,
  );
  expectError(await at(client.withClaims({ exp: 1, iat: 0 }), wrong), 401, 'invalid_token', operation);
  expectError(
    await at(client.withClaims({ spaceId: 'other' }), wrong),
    403,
    'resource_scope_mismatch',
    operation,
  );
  const permissions = PERMISSIONS.filter((permission) => permission !== authority);
  expectError(
    await at(client.withClaims({ permissions }), wrong),
    403,
    'insufficient_permission',
    `${operation} without ${authority}`,
  );
  const alone = client.withClaims({ permissions: [authority], refDomain: undefined });
  expectError(await at(alone, wrong), 400, 'INVALID_REQUEST', `${operation} with ${authority} alone`);
}

export const bulkRouteChecks: readonly Check[] = [
  check('bulk.routes', ROUTES, 'POST alone, and no other path', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    for (const operation of BULK_OPERATION_NAMES) {
      for (const method of ['GET', 'PUT', 'DELETE', 'PATCH'])
        expectNotFound(await bulk.call(operation, { method }), `${method} ${operation}`);
      expectStatus(await bulk.call(operation, { method: 'HEAD' }), 404, `HEAD ${operation}`);
      const preflight = await bulk.call(operation, {
        method: 'OPTIONS',
        headers: {
          authorization: undefined,
          origin: 'https://app.example',
          'access-control-request-method': 'POST',
        },
      });
      expectStatus(preflight, 204, `OPTIONS ${operation}`);
      expectNamed(preflight, 'access-control-allow-methods', 'POST');
      for (const name of ['authorization', 'content-type'])
        expectNamed(preflight, 'access-control-allow-headers', name);
    }
    const space = bulk.path('leaseNodes').replace(/\/leases$/, '');
    for (const path of [space, `${space}/packs`, `${space}/packs/${'0'.repeat(32)}`, `${space}/leases/`]) {
      expectNotFound(
        await client.request('POST', path, { json: {}, headers: { authorization: undefined } }),
        'a path that is no route, whatever the token',
      );
    }
    expectNotFound(
      await client.request('POST', `${space.replace(/^\/bulk/, '')}/leases`, needed('leaseNodes')),
      'nothing new below /v1',
    );
  }),
  check(
    'bulk.authority',
    RULES,
    'rows 1, 2, 7, 8 and 9, before the body is looked at',
    'bulk',
    async ({ client }) => {
      for (const operation of BULK_OPERATION_NAMES) await expectRefusals(client, operation);
    },
  ),
  check('bulk.suspended', RULES, 'a suspended App', 'bulk', 'suspended-app', async ({ client, target }) => {
    const suspended = target.options.suspendedIdentity;
    if (suspended === undefined) return;
    for (const operation of BULK_OPERATION_NAMES) {
      const answer = await new BulkClient(client.asIdentity(suspended)).call(operation, needed(operation));
      expectError(answer, 403, 'APP_SUSPENDED', operation);
    }
  }),
  check(
    'bulk.headers',
    RULES,
    'timing, CORS and caching of successes and errors',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const { id } = await bulk.uploaded(node, [plainRecord(node)]);
      const answers = [
        await bulk.call('leaseNodes', needed('leaseNodes')),
        await bulk.call('leasePack', { id, ...needed('leasePack') }),
        await bulk.call('readNodes', { json: { hashes: [node.hash] } }),
        await bulk.call('readNodes', { json: {} }),
        await bulk.call('leasePack', needed('leasePack')),
      ];
      expectEqual(
        answers.map(({ status }) => status),
        [200, 200, 200, 400, 404],
        'statuses',
      );
      for (const answer of answers) {
        const steps = expectTiming(answer, ['cas_edge', 'cas_auth']).map(({ name }) => name);
        if (answer.status === 200) {
          expectThat(steps.includes('cas_dispatch'), 'Server-Timing names cas_dispatch', steps, answer);
          expectThat(
            steps.some((name) => /^cas_(meta|content)_/.test(name)),
            'a cas_meta_* or cas_content_* step',
            steps,
            answer,
          );
        }
        expectHeader(answer, 'access-control-allow-origin', '*');
        expectHeader(answer, 'cache-control', 'no-store');
        expectNamed(answer, 'vary', 'authorization');
      }
    },
  ),
];
