/** GET /health, which paths exist, which methods they have. */
import { expectEqual, expectInvalid, expectNotFound, expectStatus, expectThat, readJson } from '../expect.ts';
import { makeNode } from '../node-bytes.ts';
import { neededBody, OPERATION_NAMES, OPERATIONS, type OperationName } from '../space-client.ts';
import { type Check, type CheckContext, check } from '../suite.ts';

const HEALTH = 'Routes and ids: health';
const ROUTES = 'Errors: unknown path or method → 404 NOT_FOUND';
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'] as const;
const BARE = { authorization: undefined };

function unknownPaths(client: CheckContext['client']): string[] {
  const space = `/v1/apps/${encodeURIComponent(client.appId)}/spaces/${client.spaceId}`;
  const node = `${space}/cas/nodes/${'a'.repeat(64)}`;
  return [
    ...[
      '/',
      '/v1',
      '/v1/',
      '/health/',
      '/Health',
      '/healthz',
      '/metrics',
      '/openapi.json',
      '/favicon.ico',
      '/robots.txt',
    ],
    ...[
      `/v1/apps/${client.appId}`,
      space,
      `${space}/`,
      `${space}/cas`,
      `${space}/cas/nodes`,
      `${space}/nodes`,
    ],
    ...[
      node,
      `${node}/`,
      `${node}/contents`,
      `${node}/content/`,
      `${node}/Content`,
      `${node}/metadata/x`,
      `${node}/upload`,
    ],
    ...[
      `${space}/cas/usage/`,
      `${space}/cas/gc/1`,
      `${space}/root-refs/`,
      `${space}/root-refs/default`,
      `${space}/usage`,
    ],
    ...[`${space}/cas//usage`, `${space}/CAS/usage`, `${space}/cas/USAGE`, `${space}/cas%2Fusage`],
    ...[
      space.replace('/v1/', '/v2/'),
      `${space.replace('/v1/', '/V1/')}/cas/usage`,
      `/api${space}/cas/usage`,
    ],
  ];
}

async function unknownPathsWith(
  context: CheckContext,
  headers: Record<string, string | undefined>,
): Promise<void> {
  for (const path of unknownPaths(context.client)) {
    expectNotFound(await context.client.request('GET', path, { headers }), 'no such route');
  }
}

async function wrongMethods(
  { client }: CheckContext,
  headers: Record<string, string | undefined>,
): Promise<void> {
  const hash = makeNode().hash;
  for (const operation of OPERATION_NAMES) {
    const path = client.path(operation, hash);
    const allowed = OPERATION_NAMES.filter((name) => client.path(name, hash) === path).map(
      (name) => OPERATIONS[name].method as string,
    );
    for (const method of METHODS) {
      if (allowed.includes(method)) continue;
      expectNotFound(await client.request(method, path, { headers }), 'the path does not have this method');
    }
  }
}

const BAD_HASHES = {
  'upper case': 'A'.repeat(64),
  'mixed case': `${'a'.repeat(63)}F`,
  '63 digits': 'a'.repeat(63),
  '65 digits': 'a'.repeat(65),
  'one digit': '0',
  'not hex': `${'a'.repeat(63)}g`,
  'a prefix': `0x${'a'.repeat(62)}`,
  'a line feed after it': `${'a'.repeat(64)}%0A`,
  'a space before it': `%20${'a'.repeat(63)}`,
  'full-width digits': '%EF%BC%91'.repeat(64),
  'an encoded slash': `${'a'.repeat(62)}%2F`,
};

const BAD_QUERIES = ['x=1', 'hash=1', 'x', 'limit=5&x=1', 'refDomain=conformance', 'access_token=1', '%00=1'];

export const healthAndRouteChecks: readonly Check[] = [
  check('health.answers', HEALTH, 'GET /health is 200 {"status":"ok"}', async ({ client }) => {
    const answer = await client.request('GET', '/health', { headers: BARE });
    expectStatus(answer, 200);
    expectEqual(readJson(answer), { status: 'ok' }, 'body', answer);
  }),
  check('health.no-timing', HEALTH, '/health emits no timing headers', async ({ client }) => {
    const answer = await client.request('GET', '/health', { headers: BARE });
    for (const name of ['server-timing', 'timing-allow-origin']) {
      expectThat(!answer.headers.has(name), `no ${name} on /health`, answer.headers.get(name), answer);
    }
  }),
  check('health.public', HEALTH, '/health asks for no capability', async ({ client }) => {
    const answer = await client.request('GET', '/health', {
      headers: { authorization: 'Bearer not.a.token' },
    });
    expectStatus(answer, 200, 'health asks for no capability');
  }),
  check('health.methods', ROUTES, '/health has only GET and HEAD', async ({ client }) => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expectNotFound(await client.request(method, '/health', { headers: BARE }));
    }
  }),
  check('routes.unknown-path', ROUTES, 'a path that is no route is 404', (context) =>
    unknownPathsWith(context, {}),
  ),
  check(
    'routes.unknown-path-bare',
    'Capabilities: a path that is no route is 404 whatever the token',
    'the same without a token',
    (context) => unknownPathsWith(context, BARE),
  ),
  check('routes.wrong-method', ROUTES, 'a method the path does not have is 404', (context) =>
    wrongMethods(context, {}),
  ),
  check('routes.wrong-method-bare', ROUTES, 'the same without a token', (context) =>
    wrongMethods(context, BARE),
  ),
  check('routes.head-post-only', ROUTES, 'HEAD on lease and gc is 404', async ({ client }) => {
    for (const operation of ['leaseNode', 'runGc'] as const) {
      expectStatus(await client.call(operation, { method: 'HEAD' }), 404, 'HEAD exists only where GET does');
    }
  }),
  check(
    'routes.head',
    'Routes and ids: HEAD is allowed wherever GET is',
    'HEAD answers as GET does, without a body',
    async ({ client }) => {
      const node = await client.published(makeNode({ content: 'head' }));
      const reads: readonly OperationName[] = ['readContent', 'readMetadata', 'getUsage', 'listRootRefs'];
      for (const operation of reads) {
        const get = await client.call(operation, { hash: node.hash });
        const head = await client.call(operation, { hash: node.hash, method: 'HEAD' });
        expectStatus(head, 200, 'HEAD is allowed wherever GET is');
        expectEqual(head.bytes.length, 0, 'length of the HEAD body', head);
        expectEqual(
          head.headers.get('content-type'),
          get.headers.get('content-type'),
          'HEAD content-type',
          head,
        );
      }
      expectStatus(await client.request('HEAD', '/health', { headers: BARE }), 200);
    },
  ),
  check(
    'routes.head-errors',
    'Routes and ids: HEAD is allowed wherever GET is',
    'HEAD has the status of the error and no body',
    async ({ client }) => {
      const absent = await client.call('readContent', { hash: makeNode().hash, method: 'HEAD' });
      expectStatus(absent, 404);
      expectEqual(absent.bytes.length, 0, 'length of the HEAD body', absent);
      expectStatus(await client.call('getUsage', { method: 'HEAD', headers: BARE }), 401);
    },
  ),
  check(
    'routes.bad-hash',
    'Errors: bad hash → 400 INVALID_REQUEST',
    'a hash is exactly 64 lowercase hex digits',
    async ({ client }) => {
      for (const [what, hash] of Object.entries(BAD_HASHES)) {
        for (const operation of ['readContent', 'readMetadata', 'leaseNode'] as const) {
          expectInvalid(
            await client.call(operation, { hash, ...neededBody(operation, hash) }),
            `hash with ${what}`,
          );
        }
      }
    },
  ),
  check(
    'routes.unknown-query',
    'Errors: an unknown query parameter on a Space route → 400 INVALID_REQUEST',
    'every operation refuses query parameters it does not have',
    async ({ client }) => {
      const node = await client.published();
      for (const operation of OPERATION_NAMES) {
        for (const query of BAD_QUERIES) {
          const body = neededBody(operation, node.hash);
          const answer = await client.call(operation, { hash: node.hash, query, ...body });
          expectInvalid(answer, `query ?${query}`);
        }
      }
      expectEqual((await client.page()).revision, 0, 'revision after refused commits');
    },
  ),
  check('routes.empty-query', 'Errors: bad query', 'an empty query is no query', async ({ client }) => {
    expectStatus(await client.call('getUsage', { query: '' }), 200, 'a lone ? holds no parameter');
  }),
];
