/** HEAD tells exactly what GET would: status and headers of successes, ranges and errors alike. */
import type { Answer } from '../answer.ts';
import { expectEqual, expectStatus } from '../expect.ts';
import { makeNode, randomHash } from '../node-bytes.ts';
import type { CallOptions, OperationName } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import { expectTiming } from './headers.ts';

const HEAD = 'Routes and ids: HEAD is allowed wherever GET is';

/** Sent in another way than what is small, as from a file. */
const LARGE_BYTES = 512 * 1024;

/** Headers of the connection, or of this one answer. */
const OWN_TO_EACH: readonly string[] = [
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'server-timing',
  'x-request-id',
  'transfer-encoding',
];

function sharedHeaders({ headers }: Answer): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => !OWN_TO_EACH.includes(name)));
}

/** `length` because a GET may be framed without Content-Length; the answer to HEAD has only that to tell it. */
function expectAlike(head: Answer, get: Answer, status: number, what: string): void {
  expectStatus(get, status, what);
  expectStatus(head, status, `HEAD of ${what}`);
  expectEqual(head.bytes.length, 0, `length of the HEAD body of ${what}`, head);
  expectEqual(sharedHeaders(head), sharedHeaders(get), `headers of HEAD as of GET, ${what}`, head);
  expectEqual(
    head.headers.get('content-length'),
    String(get.bytes.length),
    `Content-Length of ${what}`,
    head,
  );
}

export const headChecks: readonly Check[] = [
  check('head.headers', HEAD, 'successes, ranges and errors have the headers of GET', async ({ client }) => {
    const [node, empty] = [makeNode({ content: 'told alike' }), makeNode({ content: '' })];
    const large = makeNode({ content: 'x'.repeat(LARGE_BYTES) });
    await client.publishAll([node, empty, large]);
    await client.commit('r', { [node.hash]: 1, [empty.hash]: 1, [large.hash]: 1 });
    const ranged = (hash: string, range: string): CallOptions => ({ hash, headers: { range } });
    const cases: readonly (readonly [OperationName, CallOptions, number])[] = [
      ['readContent', { hash: node.hash }, 200],
      ['readContent', { hash: empty.hash }, 200],
      ['readContent', { hash: large.hash }, 200],
      ['readContent', ranged(large.hash, `bytes=1-${LARGE_BYTES}`), 206],
      ['readContent', ranged(node.hash, 'bytes=2-5'), 206],
      ['readContent', ranged(node.hash, 'bytes=-3'), 206],
      ['readContent', ranged(node.hash, 'bytes=0-99'), 206],
      ['readContent', ranged(node.hash, 'bytes=10-'), 416],
      ['readContent', ranged(node.hash, 'bytes=0-1,3-4'), 416],
      ['readContent', ranged(empty.hash, 'bytes=0-'), 416],
      ['readContent', { hash: randomHash() }, 404],
      ['readContent', { hash: 'x' }, 400],
      ['readContent', { hash: node.hash, headers: { authorization: undefined } }, 401],
      ['readMetadata', { hash: node.hash }, 200],
      ['readMetadata', { hash: randomHash() }, 404],
      ['readMetadata', { hash: node.hash, query: 'x=1' }, 400],
      ['getUsage', {}, 200],
      ['getUsage', { headers: { authorization: 'Bearer x' } }, 401],
      ['listRootRefs', {}, 200],
      ['listRootRefs', { query: 'limit=201' }, 400],
    ];
    for (const [operation, options, status] of cases) {
      const get = await client.call(operation, options);
      const head = await client.call(operation, { ...options, method: 'HEAD' });
      expectAlike(head, get, status, `${operation} ${JSON.stringify(options)}`);
      expectTiming(head, ['cas_edge', 'cas_auth']);
    }
    const powerless = client.withClaims({ permissions: [] });
    const head = await powerless.call('getUsage', { method: 'HEAD' });
    expectAlike(head, await powerless.call('getUsage'), 403, 'getUsage without its permission');
  }),
  check('head.health', HEAD, '/health has the headers of GET', async ({ client }) => {
    const headers = { authorization: undefined };
    const get = await client.request('GET', '/health', { headers });
    expectAlike(await client.request('HEAD', '/health', { headers }), get, 200, '/health');
  }),
];
