/** Headers of every answer: Server-Timing, CORS, caching of errors, preflights. */
import type { Answer } from '../answer.ts';
import { expectEqual, expectHeader, expectJsonType, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize, randomHash } from '../node-bytes.ts';
import {
  neededBody,
  OPERATION_NAMES,
  OPERATIONS,
  type OperationName,
  type SpaceClient,
} from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const TIMING = 'Headers: Server-Timing on tenant-plane answers, errors included';
const CORS = 'Headers: CORS';
const ERRORS = 'Errors: errors are application/json with Cache-Control: no-store';

interface Named {
  readonly operation: OperationName;
  readonly answer: Answer;
}

/** One success of every operation. */
async function successes(client: SpaceClient): Promise<Named[]> {
  const node = await client.published(makeNode({ content: 'timed' }));
  const { hash } = node;
  const answers: Named[] = [];
  for (const operation of OPERATION_NAMES) {
    const answer = await client.call(operation, { hash, ...neededBody(operation, hash) });
    expectStatus(answer, 200);
    answers.push({ operation, answer });
  }
  answers.push({ operation: 'readContent', answer: await client.readContent(hash, 'bytes=0-1') });
  answers.push({ operation: 'readContent', answer: await client.readContent(hash) });
  answers.push({ operation: 'readMetadata', answer: await client.call('readMetadata', { hash }) });
  answers.push({ operation: 'leaseNode', answer: await client.lease(hash) });
  answers.push({ operation: 'leaseNode', answer: await client.lease(randomHash()) });
  return answers;
}

/** One answer of every error status that a client can bring about. */
async function failures(client: SpaceClient): Promise<Answer[]> {
  const node = await client.published();
  return [
    await client.call('readMetadata', { hash: 'x' }),
    await client.call('leaseNode', { hash: node.hash, body: '{' }),
    await client.call('getUsage', { headers: { authorization: undefined } }),
    await client.withClaims({ exp: 1, iat: 0 }).call('getUsage'),
    await client.withClaims({ permissions: [] }).call('getUsage'),
    await client.withClaims({ spaceId: 'other' }).call('getUsage'),
    await client.call('readContent', { hash: randomHash() }),
    await client.update('r', { [randomHash()]: 1 }),
    await client.update('r', { [node.hash]: -1 }),
    await client.call('runGc', { body: ' '.repeat(1_048_577) }),
    await client.readContent(node.hash, 'bytes=9-1'),
  ];
}

interface Metric {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

function parseServerTiming(answer: Answer): Metric[] {
  const value = answer.headers.get('server-timing');
  expectThat(value !== null, 'a Server-Timing header', '(absent)', answer);
  return value.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map((metric) => {
    const [name, ...parameters] = metric.split(';').map((part) => part.trim());
    expectThat(/^[\w!#$%&'*+.^`|~-]+$/.test(name ?? ''), 'metric names are tokens', metric, answer);
    const pairs = parameters.map((parameter) => {
      const at = parameter.indexOf('=');
      return [parameter.slice(0, at), parameter.slice(at + 1).replace(/^"(.*)"$/, '$1')] as const;
    });
    return { name: name ?? '', parameters: Object.fromEntries(pairs) };
  });
}

const METRIC_NAME = /^cas_(?:edge|auth|schema|dispatch|meta_[a-z0-9_]+|content_[a-z0-9_]+)$/;

export function expectTiming(answer: Answer, wanted: readonly string[]): Metric[] {
  const metrics = parseServerTiming(answer);
  const names = metrics.map((metric) => metric.name);
  expectEqual(new Set(names).size, names.length, 'each name once', answer);
  for (const { name, parameters } of metrics) {
    expectThat(METRIC_NAME.test(name), 'a metric of docs/api.md', name, answer);
    expectThat(/^\d+(\.\d+)?$/.test(parameters.dur ?? ''), `${name} with dur`, parameters, answer);
    const { desc } = parameters;
    expectThat(
      desc === undefined || /^([2-9]|[1-9]\d+) calls$/.test(desc),
      'desc="N calls" with N > 1, or none',
      desc,
      answer,
    );
  }
  for (const name of wanted)
    expectThat(names.includes(name), `Server-Timing names ${name}`, names.join(', '), answer);
  expectHeader(answer, 'timing-allow-origin', '*');
  return metrics;
}

/** A header that lists names has this one. */
export function expectNamed(answer: Answer, header: string, name: string): void {
  const value = answer.headers.get(header) ?? '';
  const names = value.toLowerCase().split(',');
  const isNamed = names.some((each) => each.trim() === name.toLowerCase());
  expectThat(isNamed, `${header} names ${name}`, value || '(absent)', answer);
}

async function preflight(
  client: SpaceClient,
  path: string,
  method: string,
  headers: readonly string[],
): Promise<void> {
  const answer = await client.request('OPTIONS', path, {
    headers: {
      authorization: undefined,
      origin: 'https://app.example',
      'access-control-request-method': method,
      'access-control-request-headers': headers.join(','),
    },
  });
  expectStatus(answer, [204, 200], 'a preflight answered with 204 or 200');
  expectHeader(answer, 'access-control-allow-origin', '*');
  expectNamed(answer, 'Access-Control-Allow-Methods', method);
  for (const name of headers) expectNamed(answer, 'Access-Control-Allow-Headers', name);
}

export const headerChecks: readonly Check[] = [
  check(
    'headers.timing',
    `${TIMING}; every success names a cas_meta_* or cas_content_* step`,
    'every operation',
    async ({ client }) => {
      for (const { operation, answer } of await successes(client)) {
        const metrics = expectTiming(answer, ['cas_edge', 'cas_auth', 'cas_dispatch']);
        const step = operation === 'readContent' ? 'cas_content_' : 'cas_meta_';
        const found = metrics.some((metric) => metric.name.startsWith(step));
        expectThat(found, `${operation} names a ${step}* step`, answer.headers.get('server-timing'), answer);
      }
    },
  ),
  check('headers.timing-errors', TIMING, 'every kind of error', async ({ client }) => {
    for (const answer of await failures(client)) expectTiming(answer, ['cas_edge', 'cas_auth']);
  }),
  check('headers.errors', ERRORS, 'every kind of error', async ({ client }) => {
    for (const answer of await failures(client)) {
      expectThat(answer.status >= 400, 'an error', answer.status, answer);
      expectJsonType(answer);
      expectHeader(answer, 'cache-control', 'no-store');
    }
  }),
  check(
    'headers.json',
    'The HTTP API, version 1: JSON responses are application/json',
    'every success',
    async ({ client }) => {
      for (const { operation, answer } of await successes(client)) {
        if (operation !== 'readContent') expectJsonType(answer);
        expectThat(!answer.headers.has('set-cookie'), 'no cookies', '(a Set-Cookie header)', answer);
        expectThat(!answer.headers.has('etag'), 'no ETag', answer.headers.get('etag'), answer);
      }
    },
  ),
  check(
    'headers.cors',
    `${CORS}: Access-Control-Allow-Origin: *, bearer only`,
    'successes and errors',
    async ({ client }) => {
      const origin = { origin: 'https://app.example' };
      const node = await client.published();
      const answers = [
        ...(await failures(client)),
        ...(await successes(client)).map(({ answer }) => answer),
        await client.call('readContent', { hash: node.hash, headers: { ...origin, range: 'bytes=0-0' } }),
        await client.call('getUsage', { headers: { ...origin, authorization: undefined } }),
      ];
      for (const answer of answers) {
        expectHeader(answer, 'access-control-allow-origin', '*');
        const credentials = answer.headers.get('access-control-allow-credentials');
        expectThat(
          credentials === null,
          'no Access-Control-Allow-Credentials: bearer only',
          credentials,
          answer,
        );
      }
    },
  ),
  check(
    'headers.exposed',
    `${CORS}: useful headers exposed (Content-Range and more)`,
    'exposed headers',
    async ({ client }) => {
      const node = await client.published();
      const answer = await client.readContent(node.hash, 'bytes=0-1');
      expectNamed(answer, 'Access-Control-Expose-Headers', 'Content-Range');
    },
  ),
  check(
    'headers.preflight',
    `${CORS}: preflight answered, Allow-Headers names authorization and content-type`,
    'every route, without a token',
    async ({ client }) => {
      for (const operation of OPERATION_NAMES) {
        await preflight(client, client.path(operation, randomHash()), OPERATIONS[operation].method, [
          'authorization',
          'content-type',
        ]);
      }
    },
  ),
  check(
    'headers.upload-cors',
    'Headers: CORS and preflight as Space routes, content-type and if-none-match allowed',
    'the upload target',
    'embedded-upload',
    async ({ client, target }) => {
      const { node, upload } = await client.startUpload(
        makeNodeOfCanonicalSize(Math.min(1000, target.nodeBytesMax)),
      );
      await preflight(client, new URL(upload.url).pathname, 'PUT', ['content-type', 'if-none-match']);
      const refused = await client.put(upload, node.bytes, { 'if-none-match': undefined });
      const accepted = await client.put(upload, node.bytes);
      const replayed = await client.put(upload, node.bytes);
      expectEqual(
        [refused.status, accepted.status, replayed.status],
        [403, 200, 412],
        'statuses of three PUTs',
      );
      for (const answer of [refused, accepted, replayed])
        expectHeader(answer, 'access-control-allow-origin', '*');
    },
  ),
];
