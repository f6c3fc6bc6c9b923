/** Bytes on the wire that no well-behaved client sends. Needs a socket. */
import { expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import { openRaw, parseAnswers, type RawAnswer, sendRaw } from '../raw-connection.ts';
import { type Check, type CheckContext, check } from '../suite.ts';

const WIRE = 'Routes and ids: requests that HTTP does not allow are refused';
const DOTS = 'Routes and ids: `.` and `..`, encoded or not, are not ids (404)';
const CLOSE = 'connection: close';

export function host({ target }: CheckContext): string {
  return new URL(target.baseUrl).host;
}

function request(context: CheckContext, line: string, headers: readonly string[], body = ''): string {
  const basePath = new URL(context.target.baseUrl).pathname.replace(/\/$/, '');
  const [method, path, ...rest] = line.split(' ') as [string, string, ...string[]];
  return `${[method, basePath + path, ...rest].join(' ')}\r\n${[`host: ${host(context)}`, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

export async function answersOf(
  context: CheckContext,
  bytes: string,
  headOnly: readonly boolean[] = [],
): Promise<RawAnswer[]> {
  const { received } = await sendRaw(context.target.baseUrl, bytes);
  return parseAnswers(received, headOnly);
}

async function expectAlive({ client }: CheckContext, after: string): Promise<void> {
  expectStatus(await client.request('GET', '/health'), 200, `alive after ${after}`);
}

/** Requests that two parsers would read differently. None may be taken for two. */
function ambiguousRequests(context: CheckContext): Record<string, string> {
  const hidden = `GET /health HTTP/1.1\r\nhost: ${host(context)}\r\n\r\n`;
  const post = (headers: readonly string[], body: string) =>
    request(
      context,
      `POST ${context.client.path('runGc')} HTTP/1.1`,
      [`authorization: Bearer ${context.client.token()}`, 'content-type: application/json', ...headers],
      body,
    );
  return {
    'both lengths (CL.TE)': post(
      [`content-length: ${5 + hidden.length}`, 'transfer-encoding: chunked'],
      `0\r\n\r\n${hidden}`,
    ),
    'both lengths (TE.CL)': post(
      ['transfer-encoding: chunked', 'content-length: 4'],
      `2\r\n{}\r\n0\r\n\r\n${hidden}`,
    ),
    'two different lengths': post(
      ['content-length: 2', `content-length: ${2 + hidden.length}`],
      `{}${hidden}`,
    ),
    'a list of lengths': post([`content-length: 2, ${2 + hidden.length}`], `{}${hidden}`),
    'a negative length': post(['content-length: -2'], `{}${hidden}`),
    'a signed length': post(['content-length: +2'], `{}${hidden}`),
    'a hexadecimal length': post(['content-length: 0x2'], `{}${hidden}`),
    'a huge length': post(['content-length: 99999999999999999999'], `{}${hidden}`),
    'an unknown transfer coding': post(['transfer-encoding: xchunked'], `0\r\n\r\n${hidden}`),
    'chunked twice': post(['transfer-encoding: chunked, chunked'], `0\r\n\r\n${hidden}`),
    'chunked not last': post(['transfer-encoding: chunked, identity'], `0\r\n\r\n${hidden}`),
    'space before the colon': post(['content-length : 2'], `{}${hidden}`),
    'a folded header': post(['transfer-encoding:\r\n chunked'], `0\r\n\r\n${hidden}`),
    'a bad chunk size': post(['transfer-encoding: chunked'], `zz\r\n{}\r\n0\r\n\r\n${hidden}`),
    'a negative chunk size': post(['transfer-encoding: chunked'], `-1\r\n{}\r\n0\r\n\r\n${hidden}`),
    'an overflowing chunk size': post(
      ['transfer-encoding: chunked'],
      `fffffffffffffffff\r\n{}\r\n0\r\n\r\n${hidden}`,
    ),
  };
}

function malformedRequests(context: CheckContext): Record<string, string> {
  const get = (line: string, ...headers: string[]) => request(context, line, [...headers, CLOSE]);
  return {
    'no request line': '\r\n\r\n\r\n',
    words: 'hello there\r\n\r\n',
    'a TLS hello': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'an HTTP/2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'HTTP/0.9': 'GET /health\r\n',
    'HTTP/9.9': get('GET /health HTTP/9.9'),
    'a header without a colon': get('GET /health HTTP/1.1', 'nothing'),
    'NUL in a header': get('GET /health HTTP/1.1', 'x: a\0b'),
    'NUL in the path': get('GET /hea\0lth HTTP/1.1'),
    'an empty header name': get('GET /health HTTP/1.1', ': x'),
    'a header of 200 KB': get('GET /health HTTP/1.1', `x: ${'a'.repeat(200_000)}`),
    '20,000 headers': get('GET /health HTTP/1.1', ...Array.from({ length: 20_000 }, (_, i) => `x${i}: a`)),
    'a path of 200 KB': get(`GET /${'a'.repeat(200_000)} HTTP/1.1`),
    'a lone carriage return': get('GET /health HTTP/1.1', 'x: a\rb: c'),
    'raw UTF-8 in the path': get('GET /v1/apps/\xc3\xa9/spaces/x/cas/usage HTTP/1.1'),
  };
}

function isWholeAnswer(text: string, isHead: boolean): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return false;
  const length = /^content-length: *(\d+)/im.exec(text.slice(0, end))?.[1];
  return isHead || text.length >= end + 4 + Number(length ?? 0);
}

export const rawProtocolChecks: readonly Check[] = [
  check('raw.dot-ids', DOTS, 'dot segments are no ids', 'socket', async (context) => {
    const { client } = context;
    const app = encodeURIComponent(client.appId);
    for (const dots of ['.', '..', '%2e', '%2E', '%2e%2e', '%2E.', '.%2e', '%2e%2E']) {
      for (const path of [
        `/v1/apps/${app}/spaces/${dots}/cas/usage`,
        `/v1/apps/${dots}/spaces/${client.spaceId}/cas/usage`,
      ]) {
        const bearer = `authorization: Bearer ${client.withClaims({ spaceId: decodeURIComponent(dots) }).token()}`;
        const [answer] = await answersOf(context, request(context, `GET ${path} HTTP/1.1`, [bearer, CLOSE]));
        expectEqual(answer?.status, 404, `status for the id ${dots}`);
      }
    }
  }),
  check(
    'raw.doubled-slash',
    'Errors: unknown path → 404',
    'doubled slashes make another path',
    'socket',
    async (context) => {
      const { client } = context;
      const bearer = `authorization: Bearer ${client.token()}`;
      const path = client.path('getUsage');
      for (const other of [
        `/${path}`,
        `//${path}`,
        path.replace('/v1/', '/v1//'),
        path.replace('/cas/', '//cas/'),
      ]) {
        const [answer] = await answersOf(context, request(context, `GET ${other} HTTP/1.1`, [bearer, CLOSE]));
        expectEqual(answer?.status, 404, 'status of a path with a doubled slash');
      }
    },
  ),
  check(
    'raw.dot-travel',
    'Routes and ids: no path tricks',
    'dot segments lead nowhere',
    'socket',
    async (context) => {
      const { client, newSpace } = context;
      const other = newSpace();
      const node = makeNode();
      await other.publish(node);
      const bearer = `authorization: Bearer ${client.token()}`;
      const app = encodeURIComponent(client.appId);
      const paths = [
        `/v1/apps/${app}/spaces/${client.spaceId}/../${other.spaceId}/cas/nodes/${node.hash}/content`,
        `/v1/apps/${app}/spaces/${client.spaceId}/%2e%2e/${other.spaceId}/cas/nodes/${node.hash}/content`,
        `/v1/apps/${app}/spaces/${client.spaceId}/..%2f${other.spaceId}/cas/nodes/${node.hash}/content`,
        `/v1/apps/${app}/spaces/${client.spaceId}%2f..%2f${other.spaceId}/cas/nodes/${node.hash}/content`,
      ];
      for (const path of paths) {
        const [answer] = await answersOf(context, request(context, `GET ${path} HTTP/1.1`, [bearer, CLOSE]));
        expectThat(
          answer?.status === 404 || answer?.status === 403 || answer?.status === 400,
          'no way into another Space',
          answer?.status,
        );
      }
    },
  ),
  check(
    'raw.blank-content-type',
    'readContent: one `Content-Type`, and never an empty one',
    'a content type of blanks, which no header can carry',
    'socket',
    async (context) => {
      const { client, target } = context;
      const node = makeNode({ contentType: '   ' });
      await client.publish(node);
      const bearer = `authorization: Bearer ${client.token()}`;
      for (const method of ['GET', 'HEAD']) {
        const line = `${method} ${client.path('readContent', node.hash)} HTTP/1.1`;
        const { received } = await sendRaw(target.baseUrl, request(context, line, [bearer, CLOSE]));
        const types = received.split('\r\n\r\n', 1)[0]?.match(/^content-type:.*$/gim);
        expectEqual(types?.length, 1, `headers Content-Type of ${method}`);
        expectThat(/^content-type: *[^ ]+$/i.test(types?.[0] ?? ''), 'the header says something', types);
      }
      const { metadata } = await client.describe(node.hash);
      expectEqual(metadata.contentType, '   ', 'contentType of the metadata');
    },
  ),
  check('raw.smuggling', WIRE, 'ambiguous framing is never two requests', 'socket', async (context) => {
    const results = await Promise.all(
      Object.entries(ambiguousRequests(context)).map(async ([what, bytes]) => ({
        what,
        ...(await sendRaw(context.target.baseUrl, bytes, 2_000)),
      })),
    );
    for (const { what, received } of results) {
      const answers = received === '' ? [] : parseAnswers(received);
      expectThat(
        !answers.some((answer) => answer.body.includes('"ok"')),
        `the hidden request stays unanswered: ${what}`,
        answers.map((answer) => answer.status),
      );
    }
    await expectAlive(context, 'smuggling probes');
  }),
  check(
    'raw.malformed',
    WIRE,
    'malformed requests are refused and harm nothing',
    'socket',
    async (context) => {
      const probes = Object.entries(malformedRequests(context)).map(async ([what, bytes]) => ({
        what,
        ...(await sendRaw(context.target.baseUrl, bytes, 2_000)),
      }));
      for (const { what, received } of await Promise.all(probes)) {
        if (received === '') continue;
        const [answer] = parseAnswers(received);
        const isRefusal = answer !== undefined && answer.status >= 400 && answer.status !== 500;
        const isHarmless = answer?.status === 200 && answer.body.includes('"ok"');
        expectThat(
          isRefusal || isHarmless,
          `a refusal, the plain answer, or a closed connection: ${what}`,
          answer?.status,
        );
      }
      await expectAlive(context, 'malformed requests');
    },
  ),
  check('raw.http-1.0', WIRE, 'HTTP/1.0 is answered and closed', 'socket', async (context) => {
    const { received, closed } = await sendRaw(
      context.target.baseUrl,
      `GET ${new URL(context.target.baseUrl).pathname.replace(/\/$/, '')}/health HTTP/1.0\r\nhost: ${host(context)}\r\n\r\n`,
    );
    const [answer] = parseAnswers(received);
    expectEqual([answer?.status, closed], [200, true], 'status and closed connection for HTTP/1.0');
  }),
  check(
    'raw.keep-alive',
    'readContent: Content-Length',
    'one connection, HEAD among its requests',
    'socket',
    async (context) => {
      const { client, target } = context;
      const node = await client.published(makeNode({ content: 'kept alive' }));
      const bearer = `authorization: Bearer ${client.token()}`;
      const path = client.path('readContent', node.hash);
      const requests: readonly (readonly [string, readonly string[], number, string])[] = [
        ['HEAD', [], 200, ''],
        ['GET', ['range: bytes=0-3'], 206, 'kept'],
        ['GET', ['range: bytes=99-'], 416, '{'],
        ['HEAD', [], 200, ''],
        ['GET', [CLOSE], 200, 'kept alive'],
      ];
      const connection = await openRaw(target.baseUrl);
      try {
        let before = 0;
        for (const [method, headers, status, body] of requests) {
          connection.write(request(context, `${method} ${path} HTTP/1.1`, [bearer, ...headers]));
          const isWhole = (text: string) => isWholeAnswer(text.slice(before), method === 'HEAD');
          const received = await connection.read(5_000, isWhole);
          const [answer] = parseAnswers(received.slice(before), [method === 'HEAD']);
          before = received.length;
          expectEqual(answer?.status, status, `status of ${method} ${headers.join()} on a kept connection`);
          expectThat(
            answer?.body.startsWith(body) === true,
            `a body that begins with ${body}`,
            answer?.body ?? '(none)',
          );
          if (method === 'HEAD')
            expectEqual(answer?.headers.get('content-length'), '10', 'Content-Length of HEAD');
        }
      } finally {
        connection.destroy();
      }
    },
  ),
  check(
    'raw.empty-length',
    'readContent: a GET without Range on an empty node: 200, length 0',
    'Content-Length: 0 on the wire',
    'socket',
    async (context) => {
      const { client } = context;
      const node = await client.published(makeNode({ content: '' }));
      const bearer = `authorization: Bearer ${client.token()}`;
      const [answer] = await answersOf(
        context,
        request(context, `GET ${client.path('readContent', node.hash)} HTTP/1.1`, [bearer, CLOSE]),
      );
      expectEqual(
        [answer?.status, answer?.headers.get('content-length')],
        [200, '0'],
        'status and Content-Length of an empty node',
      );
    },
  ),
  check(
    'raw.slow-heads',
    'Limits: a request head not complete within 60 s: closed, also when bytes keep dripping',
    'silent and dripping heads',
    'socket',
    'real-minute',
    async (context) => {
      const silent = await openRaw(context.target.baseUrl);
      const dripping = await openRaw(context.target.baseUrl);
      const drip = setInterval(() => dripping.write('x'), 1_000);
      try {
        dripping.write('GET /health HTTP/1.1\r\nx: ');
        silent.write('GET /health HTTP/1.1\r\n');
        await Promise.all([silent.read(75_000), dripping.read(75_000)]);
        expectEqual(
          [silent.isClosed(), dripping.isClosed()],
          [true, true],
          'closed: a silent and a dripping connection',
        );
      } finally {
        clearInterval(drip);
        silent.destroy();
        dripping.destroy();
      }
      await expectAlive(context, 'slow heads');
    },
  ),
  check(
    'raw.large',
    'readContent: streamed canonical bytes',
    'a large node over the wire',
    'socket',
    async ({ client, target }) => {
      const node = await client.published(makeNodeOfCanonicalSize(Math.min(target.nodeBytesMax, 9_000_000)));
      await client.expectContent(node, 'content over the wire');
      expectError(
        await client.readContent(node.hash, `bytes=${node.content.length}-`),
        416,
        'INVALID_REQUEST',
      );
    },
  ),
];
