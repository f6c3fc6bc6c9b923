/** What arrives on the wire when no well-behaved client sends it. Needs a socket. */
import { expectBytes, expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import { openRaw, parseAnswers, type RawAnswer, sendRaw } from '../raw-connection.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import type { Upload } from '../wire.ts';

const WIRE = 'contract 8: HTTP';
const DOTS = 'contract 3: `.` and `..`, encoded or not, are not ids (404)';
const CLOSE = 'connection: close';

function host({ target }: CheckContext): string {
  return new URL(target.baseUrl).host;
}

function request(context: CheckContext, line: string, headers: readonly string[], body = ''): string {
  const basePath = new URL(context.target.baseUrl).pathname.replace(/\/$/, '');
  const [method, path, ...rest] = line.split(' ') as [string, string, ...string[]];
  return `${[method, basePath + path, ...rest].join(' ')}\r\n${[`host: ${host(context)}`, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

async function answersOf(
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

async function dotSegments(context: CheckContext): Promise<void> {
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
}

async function dotsDoNotTravel(context: CheckContext): Promise<void> {
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

async function smuggling(context: CheckContext): Promise<void> {
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

async function malformed(context: CheckContext): Promise<void> {
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
}

async function oldHttp(context: CheckContext): Promise<void> {
  const { received, closed } = await sendRaw(
    context.target.baseUrl,
    `GET ${new URL(context.target.baseUrl).pathname.replace(/\/$/, '')}/health HTTP/1.0\r\nhost: ${host(context)}\r\n\r\n`,
  );
  const [answer] = parseAnswers(received);
  expectEqual([answer?.status, closed], [200, true], 'status and closed connection for HTTP/1.0');
}

async function keepAlive(context: CheckContext): Promise<void> {
  const { client } = context;
  const node = makeNode({ content: 'pipelined' });
  await client.publish(node);
  const bearer = `authorization: Bearer ${client.token()}`;
  const path = client.path('readContent', node.hash);
  const bytes = [
    request(context, `HEAD ${path} HTTP/1.1`, [bearer]),
    request(context, `GET ${path} HTTP/1.1`, [bearer, 'range: bytes=0-3']),
    request(context, `GET ${path} HTTP/1.1`, [bearer, 'range: bytes=99-']),
    request(context, `GET ${path} HTTP/1.1`, [bearer, CLOSE]),
  ].join('');
  const answers = await answersOf(context, bytes, [true]);
  expectEqual(
    answers.map((answer) => answer.status),
    [200, 206, 416, 200],
    'statuses of pipelined requests, in order',
  );
  expectEqual(answers[0]?.headers.get('content-length'), '9', 'Content-Length of HEAD');
  expectEqual([answers[1]?.body, answers[3]?.body], ['pipe', 'pipelined'], 'bodies of pipelined reads');
}

async function announcedLengths(context: CheckContext): Promise<void> {
  const { client } = context;
  const node = makeNode({ content: '' });
  await client.publish(node);
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
}

function putHead(context: CheckContext, upload: Upload, framing: readonly string[]): string {
  const url = new URL(upload.url);
  const headers = Object.entries(upload.headers).map(([name, value]) => `${name}: ${value}`);
  return `PUT ${url.pathname}${url.search} HTTP/1.1\r\n${[`host: ${host(context)}`, ...headers, ...framing].join('\r\n')}\r\n\r\n`;
}

const statusSeen = (received: string) => /^HTTP\/1\.1 [2-5]\d\d/m.test(received);

async function reservedWhileReceiving(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const node = makeNodeOfCanonicalSize(50_000);
  const upload = await client.instruction(node.hash);
  const connection = await openRaw(target.baseUrl);
  try {
    connection.write(putHead(context, upload, ['content-length: 50000']));
    connection.write(node.bytes.slice(0, 30_000));
    await expectReserved(context, 50_000, 'while the upload is received');
    connection.write(node.bytes.slice(30_000));
    expectThat(
      /^HTTP\/1\.1 200/.test(await connection.read(10_000, statusSeen)),
      'the upload is answered 200',
      'another answer',
    );
    await expectReserved(context, 0, 'between PUT and lease');
  } finally {
    connection.destroy();
  }
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

/** The server learns of bytes and broken connections a moment later than we send them. */
async function expectReserved({ client }: CheckContext, bytes: number, when: string): Promise<void> {
  for (let tries = 0; tries < 60 && (await client.usage()).reservedBytes !== bytes; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expectEqual((await client.usage()).reservedBytes, bytes, `reservedBytes ${when}`);
}

async function brokenConnection(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const node = makeNodeOfCanonicalSize(50_000);
  const upload = await client.instruction(node.hash);
  for (const framing of ['content-length: 50000', 'transfer-encoding: chunked']) {
    const connection = await openRaw(target.baseUrl);
    connection.write(putHead(context, upload, [framing]));
    connection.write(framing.startsWith('c') ? node.bytes.slice(0, 30_000) : '5\r\nabcde\r\n');
    await connection.read(150);
    connection.destroy();
    await expectReserved(context, 0, 'after a connection that broke off');
    expectEqual((await client.leased(node.hash)).state, 'awaiting_upload', 'state after a broken connection');
  }
  expectStatus(await client.put(upload, node.bytes), 200, 'the same URL after broken connections');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

async function expectContinue(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  const connection = await openRaw(target.baseUrl);
  try {
    connection.write(
      putHead(context, upload, [`content-length: ${node.bytes.length}`, 'expect: 100-continue']),
    );
    await connection.read(1_000, (received) => received.includes('\r\n\r\n'));
    connection.write(node.bytes);
    const received = await connection.read(10_000, statusSeen);
    expectThat(/^HTTP\/1\.1 200/m.test(received), '200 after Expect: 100-continue', received.slice(0, 60));
  } finally {
    connection.destroy();
  }
  const lease = await client.leased(node.hash);
  expectEqual(lease.state, 'ready', 'state');
}

async function uploadTakesHost(context: CheckContext): Promise<void> {
  const { client } = context;
  const node = makeNode();
  const body = '{"leaseDurationMs":60000}';
  const path =
    new URL(context.target.baseUrl).pathname.replace(/\/$/, '') + client.path('leaseNode', node.hash);
  const lines = [
    `POST ${path} HTTP/1.1`,
    'host: store.example:8443',
    `authorization: Bearer ${client.token()}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    CLOSE,
  ];
  const [answer] = await answersOf(context, `${lines.join('\r\n')}\r\n\r\n${body}`);
  const { upload } = JSON.parse(answer?.body ?? '{}') as { upload?: Upload };
  expectThat(
    upload?.url.startsWith('http://store.example:8443/uploads/') === true,
    'http:// and the Host of the lease request',
    upload?.url ?? '(none)',
  );
  const here = new URL(upload.url);
  here.host = host(context);
  here.protocol = new URL(context.target.baseUrl).protocol;
  expectStatus(
    await client.put({ ...upload, url: here.href }, node.bytes),
    200,
    'the signature does not cover the host',
  );
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

async function slowHeads(context: CheckContext): Promise<void> {
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
}

async function largeOverSocket({ client, target }: CheckContext): Promise<void> {
  const node = makeNodeOfCanonicalSize(Math.min(target.nodeBytesMax, 9_000_000));
  await client.publish(node);
  const answer = await client.readContent(node.hash);
  expectBytes(answer.bytes, node.content, 'content over the wire', answer);
  expectError(await client.readContent(node.hash, `bytes=${node.content.length}-`), 416, 'INVALID_REQUEST');
}

export const rawProtocolChecks: readonly Check[] = [
  check('raw.dot-ids', DOTS, 'dot segments are no ids', dotSegments, 'socket'),
  check(
    'raw.dot-travel',
    'contract 3: no path tricks',
    'dot segments lead nowhere',
    dotsDoNotTravel,
    'socket',
  ),
  check('raw.smuggling', WIRE, 'ambiguous framing is never two requests', smuggling, 'socket'),
  check('raw.malformed', WIRE, 'malformed requests are refused and harm nothing', malformed, 'socket'),
  check('raw.http-1.0', WIRE, 'HTTP/1.0 is answered and closed', oldHttp, 'socket'),
  check(
    'raw.keep-alive',
    'spec readContent: Content-Length',
    'pipelined requests, HEAD among them',
    keepAlive,
    'socket',
  ),
  check(
    'raw.empty-length',
    'contract 8: a GET without Range on an empty node: 200, length 0',
    'Content-Length: 0 on the wire',
    announcedLengths,
    'socket',
  ),
  check(
    'raw.reserved',
    'contract 7: reservedBytes: the declared length of an upload being received, only while it is',
    'a PUT that pauses',
    reservedWhileReceiving,
    'socket',
    'embedded-upload',
  ),
  check(
    'raw.broken-put',
    'contract 5: an interrupted PUT leaves nothing, and the same URL can be used again',
    'connections that break off',
    brokenConnection,
    'socket',
    'embedded-upload',
  ),
  check(
    'raw.expect-continue',
    'contract 5: upload target',
    'Expect: 100-continue',
    expectContinue,
    'socket',
    'embedded-upload',
  ),
  check(
    'raw.upload-host',
    'contract 9: an upload URL takes http:// and the Host of the lease request',
    'without a public URL',
    uploadTakesHost,
    'socket',
    'embedded-upload',
    'own-host',
  ),
  check(
    'raw.slow-heads',
    'contract 8: a request head not complete within 60 s: closed, also when bytes keep dripping',
    'silent and dripping heads',
    slowHeads,
    'socket',
    'real-minute',
  ),
  check(
    'raw.large',
    'spec readContent: streamed canonical bytes',
    'a large node over the wire',
    largeOverSocket,
    'socket',
  ),
];
