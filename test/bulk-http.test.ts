/** Bulk over real sockets: routes, authority, bodies, headers, errors, the upload target, the audit log and metrics (docs/bulk.md, docs/api.md). */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { objectPath } from './support/embedded-files.ts';
import { findPackOf } from './support/embedded-packs.ts';
import { makePack, PACK_BYTES_LIMIT, packed, plain } from './support/planted-pack.ts';
import { ANSWER_MS_MAX, openConnection } from './support/raw-connection.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { readPrinted } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const PACK_TYPE = 'application/vnd.holdfast.cas-pack.v1';
const ALL = ['cas:nodes:read', 'cas:nodes:lease'];

let running: RunningServer;
let bulk: BulkClient;
const folder = makeTempFolder('bulk-audit');
const auditFile = join(folder.path, 'audit.jsonl');
let number = 0;
const nextNode = (options = {}) => makeNode(`bulk ${++number}`, options);

beforeAll(async () => {
  running = await startFreshServer('bulk-http', {
    arguments: ['--audit-log', auditFile, '--operator-listen', '127.0.0.1:0', '--max-node-bytes', '4MiB'],
  });
  bulk = clientWith(ALL);
}, 300_000);
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function clientWith(permissions: readonly string[], spaceId = SPACE): BulkClient {
  return makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(spaceId, { permissions }));
}

async function errorOf(response: Response): Promise<[number, string]> {
  expect(response.headers.get('content-type')).toBe('application/json');
  expect(response.headers.get('cache-control')).toBe('no-store');
  expectOpen(response);
  const body = await response.json();
  expect(Object.keys(body).sort()).toEqual(['error', 'message']);
  expect(body.message).toMatch(/./);
  return [response.status, body.error];
}

/** Headers of every answer to tenants. */
function expectOpen({ headers }: Response): void {
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.get('timing-allow-origin')).toBe('*');
  expect(headers.get('vary')).toContain('Authorization');
  expect(headers.get('access-control-expose-headers')).toContain('Retry-After');
  expect(headers.get('server-timing')).toMatch(/^cas_edge;dur=/);
}

const PATHS = ['/leases', `/packs/${'0'.repeat(32)}/lease`, '/reads'];

describe('routes', () => {
  test.each(PATHS)('%s answers POST and preflights, any other method is 404', async (path) => {
    const url = `${bulk.spaceUrl}${path}`;
    const headers = { authorization: `Bearer ${running.issuer.token(SPACE)}` };
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      expect(await errorOf(await fetch(url, { method, headers }))).toEqual([404, 'NOT_FOUND']);
    }
    const head = await fetch(url, { method: 'HEAD', headers });
    expect([head.status, await head.text()]).toEqual([404, '']);
    const preflight = await fetch(url, { method: 'OPTIONS' });
    expect([preflight.status, await preflight.text()]).toEqual([204, '']);
    expect(preflight.headers.get('access-control-allow-methods')).toContain('POST');
    expect(preflight.headers.get('access-control-allow-headers')).toMatch(
      /authorization.*content-type.*traceparent.*tracestate/,
    );
  });

  test.each([
    '/bulk/v1/apps/app/spaces/space',
    '/bulk/v1/apps/app/spaces/space/packs',
    '/bulk/v1/apps/app/spaces/space/packs//lease',
    '/bulk/v1/apps/app/spaces/space/leases/',
    '/bulk/v1/apps/app/spaces/../leases',
    '/bulk/v1/apps/app/spaces/%2e%2e/leases',
    '/bulk/v2/apps/app/spaces/space/leases',
    '/v1/apps/app/spaces/space/leases',
    '/v1/apps/app/spaces/space/reads',
  ])('%s is 404 whatever the token', async (path) => {
    const response = await fetch(`${running.server.url}${path}`, { method: 'POST', body: '{}' });
    expect([response.status, (await response.json()).error]).toEqual([404, 'NOT_FOUND']);
  });
});

describe('authority', () => {
  const rows: readonly [string, () => Promise<Response>, number, string][] = PATHS.flatMap((path) => {
    const [right, wrong] = path === '/reads' ? [ALL[0]!, ALL[1]!] : [ALL[1]!, ALL[0]!];
    return [
      [`${path}, no token`, () => fetch(`${bulk.spaceUrl}${path}`, { method: 'POST' }), 401, 'missing_token'],
      [
        `${path}, no JWT`,
        () => bulk.request(path, 'no JSON', { authorization: 'Bearer x' }),
        401,
        'invalid_token',
      ],
      [
        `${path}, another Space`,
        () => clientWith([right], 'other').request(path, ''),
        403,
        'resource_scope_mismatch',
      ],
      [
        `${path}, without ${right}`,
        () => clientWith([wrong, 'cas:usage:read']).request(path, ''),
        403,
        'insufficient_permission',
      ],
      [
        `${path}, before the body is looked at`,
        () => clientWith([right]).request(path, ''),
        400,
        'INVALID_REQUEST',
      ],
    ];
  });
  test.each(rows)('%s', async (_, ask, status, code) => {
    const response = await ask();
    if (status === 401) expect(response.headers.get('www-authenticate')).toMatch(/^Bearer/);
    expect(await errorOf(response)).toEqual([status, code]);
  });
});

describe('bodies', () => {
  test('media type, size, query, fields, and a pack id that is none', async () => {
    const node = nextNode();
    const lease = { leaseDurationMs: 1, hashes: [node.hash] };
    const refused: [string, Response, number, string][] = [
      [
        'media type',
        await bulk.request('/leases', lease, { 'content-type': 'text/plain' }),
        400,
        'INVALID_REQUEST',
      ],
      ['query', await bulk.request('/leases?x=1', lease), 400, 'INVALID_REQUEST'],
      ['field', await bulk.request('/leases', { ...lease, more: 1 }), 400, 'INVALID_REQUEST'],
      [
        'twice',
        await bulk.request('/leases', { ...lease, hashes: [node.hash, node.hash] }),
        400,
        'INVALID_REQUEST',
      ],
      [
        'codec',
        await bulk.request('/reads', { hashes: [node.hash], codecs: ['br'] }),
        400,
        'INVALID_REQUEST',
      ],
      ['over 1 MiB', await bulk.request('/reads', ' '.repeat(2 ** 20 + 1)), 413, 'PAYLOAD_TOO_LARGE'],
      ['pack id', await bulk.request('/packs/x/lease', { leaseDurationMs: 1 }), 404, 'NOT_FOUND'],
      ['pack id', await bulk.request('/packs/%2e%2e/lease', { leaseDurationMs: 1 }), 404, 'NOT_FOUND'],
      ['pack body', await bulk.request(PATHS[1]!, { leaseDurationMs: 0 }), 400, 'INVALID_REQUEST'],
    ];
    for (const [name, response, status, code] of refused) {
      expect([name, ...(await errorOf(response))]).toEqual([name, status, code]);
    }
    const spaced = await bulk.request('/leases', `${JSON.stringify(lease)}${' '.repeat(2 ** 20 - 200)}`, {
      'content-type': 'application/json; charset=utf-8',
    });
    expect(spaced.status).toBe(200);
  });

  test('4,096 hashes in one request, 4,097 in none', async () => {
    const hashes = Array.from({ length: 4097 }, (_, index) => (index + 1).toString(16).padStart(64, '0'));
    expect((await bulk.leases(hashes)).status).toBe(400);
    const { status, json } = await bulk.leases(hashes.slice(1));
    expect([status, json.results.length, json.results[4095]]).toEqual([
      200,
      4096,
      { state: 'absent', hash: hashes[4096] },
    ]);
    expect(await bulk.read(hashes.slice(1))).toEqual([]);
  });
});

test('answers of every kind have the headers of all tenant routes', async () => {
  const node = nextNode();
  const pack = await bulk.open([node.hash]);
  expect(pack).toMatchObject({ method: 'PUT', bytesMax: PACK_BYTES_LIMIT, recordsMax: 4096 });
  expect(pack.url).toStartWith(`${running.server.url}/uploads/`);
  expect(pack.headers).toEqual({ 'content-type': PACK_TYPE, 'if-none-match': '*' });
  const early = await bulk.request(`/packs/${pack.id}/lease`, { leaseDurationMs: 1 });
  expect(await errorOf(early)).toEqual([409, 'CONFLICT']);
  const put = await bulk.put(pack, makePack([plain(node)]));
  expect([put.status, await put.text()]).toEqual([200, '']);
  expectOpen(put);
  const answers = [
    await bulk.request('/leases', { leaseDurationMs: 1, hashes: [node.hash] }),
    await bulk.request(`/packs/${pack.id}/lease`, { leaseDurationMs: 1 }),
    await bulk.request('/reads', { hashes: [node.hash] }),
  ];
  for (const [index, answer] of answers.entries()) {
    expect(answer.status).toBe(200);
    expectOpen(answer);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('content-type')).toBe(index === 2 ? PACK_TYPE : 'application/json');
    expect(answer.headers.get('server-timing')).toMatch(/cas_meta_|cas_content_/);
    const names = answer.headers
      .get('server-timing')!
      .split(', ')
      .map((part) => part.split(';')[0]);
    expect(new Set(names).size).toBe(names.length);
    await answer.bytes();
  }
});

describe('the upload target', () => {
  const put = (url: string, headers: Record<string, string>, body: Uint8Array | string = makePack([])) =>
    fetch(url, { method: 'PUT', headers, body: body as string });

  test('judges a PUT as it judges one of a node', async () => {
    const pack = await bulk.open([nextNode().hash]);
    const { url, headers } = pack;
    expect((await fetch(url, { method: 'OPTIONS' })).status).toBe(204);
    expect(await errorOf(await fetch(url))).toEqual([404, 'NOT_FOUND']);
    expect(await errorOf(await put(`${url}?x`, headers))).toEqual([403, 'FORBIDDEN']);
    expect(await errorOf(await put(url, { 'content-type': PACK_TYPE }))).toEqual([403, 'FORBIDDEN']);
    expect(
      await errorOf(await put(url, { ...headers, 'content-type': 'application/vnd.holdfast.cas-node.v1' })),
    ).toEqual([403, 'FORBIDDEN']);
    expect((await put(url, headers)).status).toBe(200);
    expect(await errorOf(await put(url, headers))).toEqual([412, 'CONFLICT']);
    expect((await bulk.lease(pack.id)).json).toEqual({ results: [] });
    expect(await errorOf(await put(url, headers))).toEqual([412, 'CONFLICT']);
  });

  test('a PUT that breaks off leaves nothing, and the same URL is good again', async () => {
    const node = nextNode();
    const pack = await bulk.open([node.hash]);
    const body = makePack([plain(node)]);
    const { pathname } = new URL(pack.url);
    const fields = Object.entries(pack.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const raw = await openConnection(running.server.port);
    raw.write(
      `PUT ${pathname} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n${fields.join('')}\r\n`,
    );
    raw.write(body.subarray(0, 20));
    raw.destroy();
    await until(async () => (await bulk.put(pack, body)).status === 200);
    expect((await bulk.lease(pack.id)).json.results).toMatchObject([{ state: 'ready', hash: node.hash }]);
  });

  test('a body that is declared longer than a pack may be is 413 and finishes the pack', async () => {
    const pack = await bulk.open([nextNode().hash]);
    const raw = await openConnection(running.server.port);
    const fields = Object.entries(pack.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    raw.write(
      `PUT ${new URL(pack.url).pathname} HTTP/1.1\r\nHost: h\r\nContent-Length: ${PACK_BYTES_LIMIT + 1}\r\n${fields.join('')}\r\n`,
    );
    expect(await raw.wait((text) => text.includes('\r\n'), ANSWER_MS_MAX)).toStartWith('HTTP/1.1 413 ');
    raw.destroy();
    const { json } = await bulk.lease(pack.id);
    expect(json).toEqual({ results: [], broken: { byte: PACK_BYTES_LIMIT, message: expect.any(String) } });
    expect(await errorOf(await bulk.put(pack, makePack([])))).toEqual([412, 'CONFLICT']);
  });
});

test('a read of a failing store is 503 before the first byte, and breaks off after it', async () => {
  const first = Array.from({ length: 4 }, (_, index) => makeNode(seededBytes(900_000, 100 + index)));
  const second = [nextNode(), nextNode()];
  await bulk.send(first);
  await bulk.send(second);
  const path = objectPath(running.data, findPackOf(running.data, second[0]!.hash));
  renameSync(path, `${path}.kept`);
  // A folder can be opened, and not be read: no proof that the bytes are gone.
  mkdirSync(path);
  const [before, after] = [first.map(({ hash }) => hash), second.map(({ hash }) => hash)];
  expect(await errorOf(await bulk.request('/reads', { hashes: after }))).toEqual([
    503,
    'SERVICE_UNAVAILABLE',
  ]);
  const broken = await bulk.request('/reads', { hashes: [...before, ...after] });
  expect(broken.status).toBe(200);
  await expect(broken.bytes()).rejects.toThrow();
  renameSync(path, `${path}.away`);
  renameSync(`${path}.kept`, path);
  expect((await bulk.read([...before, ...after])).map(({ hash }) => hash)).toEqual([...before, ...after]);
});

test('a client that goes away in the middle of reads does no harm', async () => {
  const nodes = Array.from({ length: 12 }, (_, index) => makeNode(seededBytes(3_000_000, 200 + index)));
  await bulk.send(nodes);
  for (let times = 0; times < 10; times += 1) {
    const response = await bulk.request('/reads', { hashes: nodes.map(({ hash }) => hash) });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
  }
  expect(await bulk.read(nodes.map(({ hash }) => hash))).toHaveLength(12);
});

test('records come back in the codec that was asked for', async () => {
  const [text, raw] = [makeNode('text '.repeat(1000)), nextNode()];
  await bulk.send([text], [packed(text), plain(raw)]);
  for (const codecs of [undefined, [], ['zstd']]) {
    const records = await bulk.read([raw.hash, text.hash], codecs);
    expect(records.map(({ hash, codec }) => [hash, codec])).toEqual([
      [raw.hash, 0],
      [text.hash, codecs?.length === 1 ? 1 : 0],
    ]);
  }
});

test('single requests and Bulk see the same node', async () => {
  const [one, two] = [nextNode(), nextNode()];
  const client = running.client();
  await bulk.send([one]);
  await client.store(two);
  expect((await client.metadata(one.hash)).json.metadata.size).toBe(one.content.length);
  expect(Buffer.compare(await (await client.content(one.hash)).bytes(), one.content)).toBe(0);
  const records = await bulk.read([two.hash, one.hash]);
  expect(records.map(({ stored }) => Buffer.from(stored))).toEqual(
    [two, one].map(({ bytes }) => Buffer.from(bytes)),
  );
});

test('the audit log and the metrics name each operation; a renewal is no change', async () => {
  const node = nextNode();
  await bulk.send([node]);
  const linesOf = () =>
    readFileSync(auditFile, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const idOf = async (hash: string, pack = false): Promise<string | null> => {
    const answer = await bulk.request('/leases', { leaseDurationMs: 60_000, hashes: [hash], pack });
    expect(answer.status).toBe(200);
    return answer.headers.get('x-request-id');
  };
  const ids = [await idOf(nextNode().hash, true), await idOf(node.hash), await idOf(nextNode().hash, true)];
  expect(ids).toEqual([expect.any(String), null, expect.any(String)]);
  await until(() => linesOf().some(({ requestId }) => requestId === ids[2]));
  // Changes are written in their order; refusals of earlier tests, which are counted first, may come between them.
  const changes = linesOf().filter(({ status }) => status === 200);
  const operations = new Set(changes.map(({ operation }) => operation));
  for (const operation of ['leaseNodes', 'upload', 'leasePack']) expect(operations).toContain(operation);
  const line = changes.find(({ operation }) => operation === 'leasePack');
  expect(line).toMatchObject({ app: APP, space: SPACE, iss: expect.any(String) });
  expect(changes.slice(-2).map(({ requestId }) => requestId)).toEqual([ids[0], ids[2]]);
  const operators = await readPrinted(running.server, /^operators: (\S+)\n/m);
  const text = await (await fetch(`${operators}/metrics`)).text();
  for (const operation of ['leaseNodes', 'leasePack', 'readNodes']) {
    expect(text).toMatch(
      new RegExp(`holdfast_requests_total\\{operation="${operation}",status="200",app="${APP}"\\} [1-9]`),
    );
  }
});
