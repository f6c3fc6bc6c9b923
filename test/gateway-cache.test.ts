/** `holdfast gateway cache` over a real server: keys, entries of builds, artifacts, git-lfs, and refusals. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { actionResult, digest, message, sha256 } from './support/action-results.ts';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { ANSWER_MS_MAX, openConnection, statusesOf } from './support/raw-connection.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'cache';
let commands: TreeCommands;
let door: GatewayProcess;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-cache');
  door = await startGateway(commands.environment(SPACE), 'cache');
});
afterAll(async () => {
  await endGateway(door);
  await commands.remove();
});

interface Sent {
  readonly headers?: Record<string, string>;
  readonly body?: BodyInit;
}

function send(
  method: string,
  path: string,
  { headers = {}, body }: Sent = {},
  from = door,
): Promise<Response> {
  return fetch(`${from.url}${path}`, {
    method,
    headers: { ...from.headers, ...headers },
    body: body ?? null,
  });
}

const statusOf = async (...args: Parameters<typeof send>): Promise<number> => (await send(...args)).status;
const textOf = async (...args: Parameters<typeof send>): Promise<string> => (await send(...args)).text();

/** A request as no client of HTTP would write it. */
async function sendRaw(lines: string, body = ''): Promise<number> {
  const { hostname, port, host } = new URL(door.url);
  const answer = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, chunk) => answer.resolve(chunk.toString()),
      close: () => answer.resolve(''),
    },
  });
  const head = [lines, `Host: ${host}`, `Authorization: ${door.headers.authorization}`, 'Connection: close'];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(await answer.promise)?.[1]);
  socket.end();
  return status;
}

test('a key is put, read, replaced and removed, beside keys below it, and the name has one snapshot', async () => {
  expect(await statusOf('GET', 'a')).toBe(404);
  expect(await statusOf('PUT', 'a', { body: 'first' })).toBe(201);
  expect(await statusOf('PUT', 'a/b', { body: 'below' })).toBe(201);
  expect(await statusOf('PUT', 'a', { body: 'second' })).toBe(200);
  expect([await textOf('GET', 'a'), await textOf('GET', 'a/b')]).toEqual(['second', 'below']);
  expect((await send('HEAD', 'a')).headers.get('content-length')).toBe('6');
  const part = await send('GET', 'a', { headers: { range: 'bytes=2-' } });
  expect([part.status, await part.text()]).toEqual([206, 'cond']);
  expect(await statusOf('DELETE', 'a')).toBe(204);
  expect([await statusOf('GET', 'a'), await statusOf('DELETE', 'a')]).toEqual([404, 404]);
  expect(await statusOf('PUT', 'large', { body: new Uint8Array(3_000_000).fill(7) })).toBe(201);
  expect((await (await send('GET', 'large')).bytes()).length).toBe(3_000_000);
  expect(await statusOf('PUT', 'streamed', { body: new Response('in pieces').body as ReadableStream })).toBe(
    201,
  );
  const snapshots = JSON.parse(await commands.runWell(SPACE, 'snapshots', 'cache', '--json'));
  expect(snapshots).toHaveLength(1);
});

test('values move to larger folders when smaller ones are full, and the newest of each key is read and removed', async () => {
  const many = await startGateway(commands.environment('many'), 'cache');
  const bodyOf = async (key: string) => (await send('GET', key, {}, many)).text();
  const folders = async () => (await commands.runWell('many', 'ls', 'cache')).trim().split('\n');
  const putAll = (count: number, prefix: string) =>
    Promise.all(
      Array.from({ length: count }, (_, index) => {
        return send('PUT', `${prefix}${index}`, { body: `${prefix}${index}` }, many);
      }),
    );
  await putAll(64, 'k');
  await until(async () => (await folders()).join() === 'keys.new2');
  expect((await send('PUT', 'k7', { body: 'newer' }, many)).status).toBe(200);
  expect(await folders()).toEqual(['keys.new', 'keys.new2']);
  expect([await bodyOf('k7'), await bodyOf('k8')]).toEqual(['newer', 'k8']);
  await putAll(512, 'm');
  await until(async () => (await folders()).includes('keys.new3'));
  expect([await bodyOf('k7'), await bodyOf('k8'), await bodyOf('m8')]).toEqual(['newer', 'k8', 'm8']);
  expect((await send('PUT', 'k7', { body: 'newest' }, many)).status).toBe(200);
  expect(await bodyOf('k7')).toBe('newest');
  expect((await send('DELETE', 'k7', {}, many)).status).toBe(204);
  expect((await send('GET', 'k7', {}, many)).status).toBe(404);
  expect((await send('PUT', 'k8', { body: 'last' }, many)).status).toBe(200);
  // It keeps when values were used, in the folder of their kind.
  expect(await endGateway(many)).toBe(0);
  expect(await folders()).toEqual(['keys']);
  expect(await commands.runWell('many', 'cat', 'cache/keys/k8')).toBe('last');
});

test('a key is removed while another gateway writes others all the time', async () => {
  const keys = Array.from({ length: 4 }, (_, index) => `busy-${index}`);
  await Promise.all(keys.map((key) => send('PUT', key, { body: key })));
  const other = await startGateway(commands.environment(SPACE), 'cache');
  let written = 0;
  let isOver = false;
  const write = async (writer: number): Promise<void> => {
    for (let round = 0; round < 10_000 && !isOver; round += 1) {
      expect(await statusOf('PUT', `w${writer}-${round}`, { body: 'x' }, other)).toBe(201);
      written += 1;
    }
  };
  const writing = Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer)));
  await until(() => written > 16);
  const statuses: number[] = [];
  for (const key of keys) statuses.push(await statusOf('DELETE', key));
  isOver = true;
  await writing;
  expect(statuses).toEqual([204, 204, 204, 204]);
  expect(await Promise.all(keys.map((key) => statusOf('GET', key)))).toEqual([404, 404, 404, 404]);
  expect(await endGateway(other)).toBe(0);
});

test('sccache finds what it asks for', async () => {
  await send('PUT', 'sc/x', { body: 'x' });
  expect(await statusOf('MKCOL', 'sc/new/')).toBe(201);
  expect([await statusOf('PROPFIND', 'sc/none'), await statusOf('PROPFIND', 'sc/')]).toEqual([404, 207]);
  expect(await textOf('PROPFIND', 'sc/x')).toContain('<D:getcontentlength>1</D:getcontentlength>');
  const bomb = '<!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:"><allprop/></propfind>';
  expect(await statusOf('PROPFIND', 'sc/x', { body: bomb })).toBe(400);
});

test('cas/ takes only bytes of its SHA-256, whatever stands before it', async () => {
  const key = `cas/${sha256('blob')}`;
  expect(await statusOf('PUT', key, { body: 'other' })).toBe(400);
  expect(await statusOf('GET', key)).toBe(404);
  expect(await statusOf('PUT', `one/${key}`, { body: 'blob' })).toBe(201);
  expect(await statusOf('PUT', key, { body: 'blob' })).toBe(200);
  expect(await textOf('GET', `two/parts/${key}`)).toBe('blob');
  const large = new Uint8Array(1_000_000).fill(1);
  expect(await statusOf('PUT', `cas/${sha256(large)}`, { body: large.fill(2) })).toBe(400);
});

test('an entry of ac/ is served only while all that it names is there', async () => {
  const key = `ac/${sha256('action')}`;
  const tree = message([1, message([1, message([1, 'f'], [2, digest('in a folder')])])], [2, message()]);
  const entry = actionResult(['out', ''], [3, message([1, 'dir'], [3, digest(tree)])], [6, digest('said')]);
  expect(await statusOf('PUT', key, { body: entry })).toBe(201);
  for (const output of ['out', tree, 'said', 'in a folder']) {
    expect([output, await statusOf('GET', key)]).toEqual([output, 404]);
    expect(await statusOf('PUT', `cas/${sha256(output)}`, { body: output })).toBe(201);
  }
  expect(Buffer.from(await (await send('GET', key)).bytes())).toEqual(Buffer.from(entry));
  expect(await statusOf('GET', `prefix/${key}`)).toBe(404);
  await commands.runWell(SPACE, 'gc', '--all');
  expect([await statusOf('HEAD', key), await textOf('GET', `cas/${sha256('out')}`)]).toEqual([200, 'out']);
  await send('DELETE', `cas/${sha256('in a folder')}`);
  expect(await statusOf('GET', key)).toBe(404);
  for (const body of ['text', '{"a":1}', message([2, message([1, 'out'])]), message([4, 'x'])])
    expect(await statusOf('PUT', key, { body })).toBe(400);
});

test('artifacts of Turborepo belong to their team and keep tag and duration', async () => {
  const bearer = { authorization: `Bearer ${door.password}` };
  const status = await send('GET', 'v8/artifacts/status', { headers: bearer });
  expect([status.status, await status.json()]).toEqual([200, { status: 'enabled' }]);
  expect(await statusOf('POST', 'v8/artifacts/events', { headers: bearer, body: '[]' })).toBe(200);
  const headers = { ...bearer, 'x-artifact-tag': 'tag', 'x-artifact-duration': '12' };
  expect(await statusOf('PUT', 'v8/artifacts/h?slug=one', { headers, body: 'zip' })).toBe(201);
  const found = await send('GET', 'v8/artifacts/h?slug=one', { headers: bearer });
  const kept = ['x-artifact-tag', 'x-artifact-duration', 'content-length'].map((name) =>
    found.headers.get(name),
  );
  expect([await found.text(), ...kept]).toEqual(['zip', 'tag', '12', '3']);
  expect(await statusOf('HEAD', 'v8/artifacts/h?teamId=two', { headers: bearer })).toBe(404);
  expect(await statusOf('GET', 'a', { headers: { authorization: 'Bearer wrong' } })).toBe(401);
});

const batch = (body: unknown, from = door) =>
  send('POST', 'lfs/info/lfs/objects/batch', { body: JSON.stringify(body) }, from);

test('git-lfs uploads, verifies and downloads; its errors are its own', async () => {
  const oid = sha256('object');
  const objects = [{ oid, size: 6 }];
  const missing = await (await batch({ operation: 'download', objects })).json();
  expect(missing.objects[0].error.code).toBe(404);
  const asked = await (await batch({ operation: 'upload', transfers: ['basic'], objects })).json();
  const { upload, verify } = asked.objects[0].actions;
  expect(upload.href).toStartWith(door.url);
  const to = (href: string) => href.slice(door.url.length);
  expect(await statusOf('PUT', to(upload.href), { body: 'another' })).toBe(422);
  expect(await statusOf('POST', to(verify.href), { body: JSON.stringify({ oid, size: 6 }) })).toBe(404);
  expect(await statusOf('PUT', to(upload.href), { body: 'object' })).toBe(200);
  expect(await statusOf('POST', to(verify.href), { body: JSON.stringify({ oid, size: 6 }) })).toBe(200);
  expect(await statusOf('POST', to(verify.href), { body: JSON.stringify({ oid, size: 7 }) })).toBe(422);
  const again = await (await batch({ operation: 'upload', transfers: [], objects })).json();
  expect(again.objects[0].actions).toBeUndefined();
  const there = await (await batch({ operation: 'download', objects })).json();
  expect(await textOf('GET', to(there.objects[0].actions.download.href))).toBe('object');
  const many = Array.from({ length: 100_000 }, () => objects[0]);
  const refused = await Promise.all([
    batch({ operation: 'download', objects: many }),
    batch({ operation: 'upload', objects, hash_algo: 'sha512' }),
    batch({ operation: 'other', objects }),
    batch({ operation: 'upload', transfers: ['tus'], objects }),
    send('POST', 'lfs/info/lfs/objects/batch', { body: 'no JSON' }),
    send('POST', 'lfs/info/lfs/locks/verify', { body: '{}' }),
    fetch(`${door.url}lfs/info/lfs/locks`),
  ]);
  expect(refused.map(({ status }) => status)).toEqual([413, 409, 422, 422, 400, 404, 401]);
  for (const answer of refused) {
    expect(answer.headers.get('content-type')).toBe('application/vnd.git-lfs+json');
    expect(Object.keys(await answer.json())).toEqual(['message']);
  }
  const wrong = await (await batch({ operation: 'download', objects: [{ oid: '../x', size: 1 }, 7] })).json();
  expect(wrong.objects.map((each: { error: { code: number } }) => each.error.code)).toEqual([422, 422]);
});

/** Requests on one connection, as a program writes them: `METHOD TARGET`, headers, body. The statuses in the order of the answers. */
async function replay(
  authorization: string,
  requests: readonly (readonly [string, readonly string[], (string | Uint8Array)?])[],
): Promise<readonly number[]> {
  const { host, port } = new URL(door.url);
  const connection = await openConnection(Number(port));
  // The body of a PROPFIND has a status too.
  const statuses = () => statusesOf(connection.received().replaceAll('<D:status>HTTP', ''));
  const answers = (kind: (status: number) => boolean) => statuses().filter(kind).length;
  for (const [at, [line, headers, content = '']] of requests.entries()) {
    const body = Buffer.from(content);
    const length = body.length === 0 ? [] : [`content-length: ${body.length}`];
    const head = [
      `${line} HTTP/1.1`,
      `host: ${host}`,
      `authorization: ${authorization}`,
      ...headers,
      ...length,
    ];
    connection.write(`${head.join('\r\n')}\r\n\r\n`);
    if (headers.includes('Expect: 100-continue'))
      await connection.wait(() => answers((status) => status === 100) > 0, ANSWER_MS_MAX);
    connection.write(body);
    await connection.wait(() => answers((status) => status !== 100) > at, ANSWER_MS_MAX);
  }
  connection.destroy();
  return statuses();
}

test('what Bazel, sccache, Gradle and Nix write on a connection is answered as they need it', async () => {
  const { authorization } = door.headers;
  const entry = actionResult(['replayed', ''], [6, digest('replayed')]);
  const action = `/p/ac/${sha256('replayed action')}`;
  const blob = `/p/cas/${sha256('replayed')}`;
  const bazel = ['accept: */*', 'connection: keep-alive', 'user-agent: bazel/8.0.0'];
  const gzip = [...bazel, 'accept-encoding: gzip'];
  expect(
    await replay(authorization, [
      [`GET ${action}`, gzip],
      [`PUT ${blob}`, bazel, 'replayed'],
      [`PUT ${action}`, bazel, entry],
      [`GET ${action}`, gzip],
      [`GET ${blob}`, gzip],
    ]),
  ).toEqual([404, 201, 201, 200, 200]);
  const propfind =
    '<?xml version="1.0" encoding="utf-8" ?><D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>';
  const stat = ['content-type: application/xml', 'depth: 0'];
  expect(
    await replay(`Bearer ${door.password}`, [
      ['GET /sccache/.sccache_check', ['accept: */*']],
      ['PROPFIND /sccache/', stat, propfind],
      ['PUT /sccache/.sccache_check', [], 'Hello, World!'],
      ['PROPFIND /sccache/a/b/c/', stat, propfind],
      ['PUT /sccache/a/b/c/abc0', [], 'object'],
      ['PROPFIND /sccache/a/b/c/abc0', stat, propfind],
      ['GET /sccache/a/b/c/abc0', ['accept: */*']],
    ]),
  ).toEqual([404, 207, 201, 207, 201, 207, 200]);
  const type = 'application/vnd.gradle.build-cache-artifact.v1';
  const gradle = ['X-Gradle-Version: 8.5', 'Connection: Keep-Alive', 'Accept-Encoding: gzip,deflate'];
  const accepted = [...gradle, `Accept: ${type}, */*`];
  const key = '/gradle/0f343b0931126a20f133d67c2b018a3b';
  expect(
    await replay(authorization, [
      [`GET ${key}`, accepted],
      [`PUT ${key}`, [...gradle, `Content-Type: ${type}`, 'Expect: 100-continue'], 'tar'],
      [`GET ${key}`, accepted],
    ]),
  ).toEqual([404, 100, 201, 200]);
  const nix = [
    'User-Agent: curl/8.9.1 Nix/2.24.9',
    'Accept: */*',
    'Accept-Encoding: deflate, gzip, br, zstd',
  ];
  const path = '/nix/p4pclmv1gyja5kzc26npqpia1qqxrf0l';
  const nar = '/nix/nar/1w1fff338fvdw53sqgamddn1b2xgds473pv6y13gizdbqjv4i5p3.nar.xz';
  expect(
    await replay(authorization, [
      ['GET /nix/nix-cache-info', nix],
      ['PUT /nix/nix-cache-info', [...nix, 'Content-Type: text/x-nix-cache-info'], 'StoreDir: /nix/store\n'],
      [`HEAD ${path}.narinfo`, nix],
      [`HEAD ${nar}`, nix],
      [`PUT ${nar}`, [...nix, 'Content-Type: application/x-nix-nar'], 'packed'],
      [`PUT ${path}.narinfo`, [...nix, 'Content-Type: text/x-nix-narinfo'], 'StorePath: /nix/store/x\n'],
      [`GET ${path}.narinfo`, nix],
      [`GET ${nar}`, [...nix, 'Range: bytes=3-']],
    ]),
  ).toEqual([404, 201, 404, 404, 201, 201, 200, 206]);
});

test('what can be no key is refused', async () => {
  const targets: Record<string, number> = {
    'a%2fb': 400,
    'a%00': 400,
    '%ff': 400,
    'a//b': 400,
    'a/': 400,
    'cas/short': 400,
    [`ac/${'A'.repeat(64)}`]: 400,
    [`ac/${'a'.repeat(64)}/more`]: 400,
    ['k'.repeat(1024)]: 404,
    ['k'.repeat(1025)]: 414,
    ['ä'.repeat(513)]: 414,
    ['k'.repeat(20_000)]: 414,
  };
  for (const [path, status] of Object.entries(targets))
    expect([path, await statusOf('GET', path)]).toEqual([path, status]);
  expect(await sendRaw('GET /a/../b HTTP/1.1')).toBe(400);
  expect(await sendRaw('PUT /b HTTP/1.1')).toBe(411);
  expect(await statusOf('PUT', 'b', { headers: { 'content-range': 'bytes 0-0/2' }, body: 'x' })).toBe(400);
  expect(await statusOf('POST', 'b', { body: 'x' })).toBe(405);
  expect(await statusOf('GET', 'b', { headers: { origin: 'http://elsewhere.test' } })).toBe(403);
  expect(await statusOf('GET', 'b')).toBe(404);
  const badly = (...args: string[]) => commands.runBadly(2, SPACE, 'gateway', 'cache', ...args);
  expect(await badly('--name', 'same', '--lfs-name', 'same')).toContain('--lfs-name');
  expect(await badly('--max-size', '0')).toContain('--max-size');
});

test('a gateway that only reads says so and takes nothing', async () => {
  await send('PUT', 'read', { body: 'x' });
  const reader = await startGateway(commands.environment(SPACE), 'cache', '--read-only');
  const statuses = await Promise.all(
    ['PUT', 'DELETE', 'MKCOL', 'GET'].map((method) => statusOf(method, 'read', {}, reader)),
  );
  expect(statuses).toEqual([403, 403, 403, 200]);
  expect((await batch({ operation: 'upload', objects: [] }, reader)).status).toBe(403);
  expect((await send('OPTIONS', '', {}, reader)).headers.get('allow')).not.toContain('PUT');
  expect(await endGateway(reader)).toBe(0);
});
