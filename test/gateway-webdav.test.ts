/** `holdfast gateway webdav` over a real server: it writes and refuses, and it ends. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { directory, file, writePlan } from './support/disk-trees.ts';
import { endGateway, startGateway } from './support/gateway-process.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { exchange, statusesOf } from './support/raw-connection.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'webdav';
let commands: TreeCommands;
let door: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
let url = '';
let authorization = '';

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-webdav');
  const source = commands.fresh('source');
  writePlan(
    source,
    directory({
      'a.txt': file(10, 1),
      link: { kind: 'symlink', target: 'a.txt' },
      '\u00ff\u00fe': file(1, 2),
      d: directory({ b: file(20, 3) }),
    }),
  );
  await commands.runWell(SPACE, 'push', source, '--name', 'tree', '--quiet');
  door = Bun.spawn([HOLDFAST, 'gateway', 'webdav', '--listen', '127.0.0.1:0'], {
    env: { PATH: process.env.PATH ?? '', ...commands.environment(SPACE) },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  let said = '';
  for await (const chunk of door.stdout) {
    said += new TextDecoder().decode(chunk);
    if (/^password: .+\n/m.test(said)) break;
  }
  url = /^holdfast webdav on (\S+)$/m.exec(said)?.[1] ?? '';
  const password = /^password: (\S{24,})$/m.exec(said)?.[1];
  authorization = `Basic ${btoa(`holdfast:${password}`)}`;
});
afterAll(async () => {
  door.kill('SIGTERM');
  await door.exited;
  await commands.remove();
});

function send(method: string, path: string, more: { headers?: Record<string, string>; body?: string } = {}) {
  const { headers = {}, ...rest } = more;
  return fetch(`${url}${path}`, { method, headers: { authorization, ...headers }, ...rest });
}

const statusOf = async (...args: Parameters<typeof send>): Promise<number> => (await send(...args)).status;

test('files and folders are written, read, moved and removed, and each answer is a commit', async () => {
  expect(await statusOf('MKCOL', 'notes')).toBe(201);
  expect(await statusOf('MKCOL', 'notes/d')).toBe(201);
  const put = await send('PUT', 'notes/d/ä b', { body: 'text' });
  expect([put.status, put.headers.get('etag')?.length]).toEqual([201, 45]);
  expect(await commands.runWell(SPACE, 'cat', 'notes/d/ä b')).toBe('text');
  expect(await (await send('GET', 'notes/d/%C3%A4%20b', { headers: { range: 'bytes=1-2' } })).text()).toBe(
    'ex',
  );
  const listed = await (await send('PROPFIND', 'notes/d', { headers: { depth: '1' } })).text();
  expect(listed).toContain('<D:href>/notes/d/%C3%A4%20b</D:href>');
  const destination = `${url}notes/moved`;
  expect(await statusOf('COPY', 'notes/d', { headers: { destination: `${url}notes/copy` } })).toBe(201);
  expect(await statusOf('MOVE', 'notes/d', { headers: { destination } })).toBe(201);
  expect(await statusOf('MOVE', 'notes/moved', { headers: { destination: `${destination}/x` } })).toBe(403);
  expect(await statusOf('DELETE', 'notes/copy')).toBe(204);
  expect(await commands.runWell(SPACE, 'ls', 'notes')).toBe('moved\n');
});

test('of many who replace one version exactly one wins', async () => {
  await send('MKCOL', 'race');
  const etag = (await send('PUT', 'race/f', { body: 'first' })).headers.get('etag') ?? '';
  const answers = await Promise.all(
    [1, 2, 3, 4].map((index) =>
      statusOf('PUT', 'race/f', { headers: { 'if-match': etag }, body: `${index}` }),
    ),
  );
  expect(answers.sort()).toEqual([204, 412, 412, 412]);
  expect(await statusOf('PUT', 'race/f', { headers: { 'if-none-match': '*' }, body: 'x' })).toBe(412);
});

test('who has no password, comes from another page, or asks for what no path is, is refused', async () => {
  const plain = await fetch(url);
  expect([plain.status, plain.headers.get('www-authenticate')?.slice(0, 5)]).toEqual([401, 'Basic']);
  const origin = 'http://elsewhere.test';
  expect((await fetch(url, { headers: { origin } })).status).toBe(401);
  expect(await statusOf('GET', '', { headers: { origin } })).toBe(403);
  expect(await statusOf('GET', 'notes/a%2fb')).toBe(400);
  expect(await statusOf('GET', 'notes/%00')).toBe(400);
  expect(await statusOf('PUT', 'new', { body: 'x' })).toBe(403);
  expect(await statusOf('DELETE', 'notes')).toBe(403);
  expect(await statusOf('PUT', 'none/x', { body: 'x' })).toBe(409);
  expect(await statusOf('MKCOL', 'none/x')).toBe(409);
  expect(await statusOf('PUT', 'notes/new/', { body: 'x' })).toBe(409);
  expect(await statusOf('GET', 'notes/new')).toBe(404);
  const endless = await send('PROPFIND', 'notes', { headers: { depth: 'infinity' } });
  expect([endless.status, await endless.text()]).toEqual([
    403,
    expect.stringContaining('propfind-finite-depth'),
  ]);
  expect(await statusOf('PROPFIND', 'notes', { headers: { depth: '2' } })).toBe(400);
  expect(await statusOf('PUT', 'notes/moved', { body: 'x' })).toBe(405);
  expect(await commands.runBadly(2, SPACE, 'gateway', 'webdav', '--open', '--user', 'me')).toContain(
    '--open',
  );
});

test('the password of a file is the one that counts, and is not printed', async () => {
  const secret = 'kept in a file alone';
  const path = commands.fresh('password');
  writeFileSync(path, `${secret}\n`, { mode: 0o600 });
  const given = await startGateway(
    commands.environment(SPACE),
    ...['webdav', '--user', 'me', '--password-file', path],
  );
  const statusWith = async (user: string): Promise<number> => {
    const headers = { authorization: `Basic ${btoa(`${user}:${secret}`)}` };
    return (await fetch(given.url, { method: 'OPTIONS', headers })).status;
  };
  expect([await statusWith('me'), await statusWith('holdfast')]).toEqual([200, 401]);
  expect(await endGateway(given)).toBe(0);
  expect(await new Response(given.process.stderr).text()).not.toContain(secret);
});

const PROPFIND = '<propfind xmlns="DAV:"><prop><x xmlns="urn:t"/><getetag/></prop></propfind>';
const patchOf = (inner: string): string =>
  `<propertyupdate xmlns="DAV:"><set><prop>${inner}</prop></set></propertyupdate>`;

test('dead properties are kept, go with COPY and MOVE, and end with DELETE; live ones are not set', async () => {
  await send('MKCOL', 'props');
  await send('PUT', 'props/f', { body: 'x' });
  const set = await send('PROPPATCH', 'props/f', { body: patchOf('<x xmlns="urn:t"><y>ü&amp;</y></x>') });
  expect([set.status, await set.text()]).toEqual([207, expect.stringContaining('200 OK')]);
  const headers = { depth: '0' };
  await send('COPY', 'props/f', { headers: { destination: `${url}props/g` } });
  await send('MOVE', 'props/f', { headers: { destination: `${url}props/h` } });
  for (const path of ['props/g', 'props/h']) {
    const found = await (await send('PROPFIND', path, { headers, body: PROPFIND })).text();
    expect(found).toContain('<x xmlns="urn:t"><y>ü&#38;</y></x>');
  }
  await send('DELETE', 'props/g');
  await send('PUT', 'props/g', { body: 'x' });
  const gone = await (await send('PROPFIND', 'props/g', { headers, body: PROPFIND })).text();
  expect(gone).toContain('404 Not Found');
  const names = '<propfind xmlns="DAV:"><propname/></propfind>';
  const named = await (await send('PROPFIND', 'props/h', { headers, body: names })).text();
  expect(named).toContain('<x xmlns="urn:t"></x>');
  const live = await send('PROPPATCH', 'props/h', { body: patchOf('<getetag/><z xmlns="urn:t"/>') });
  expect(await live.text()).toMatch(/403 Forbidden.*424 Failed Dependency/s);
  const large = patchOf(`<x xmlns="urn:t">${'x'.repeat(900_000)}</x>`);
  expect(await (await send('PROPPATCH', 'props/h', { body: large })).text()).toContain('507');
});

test('only who has the token of a lock writes under it', async () => {
  expect((await send('OPTIONS', '')).headers.get('dav')).toBe('1, 2');
  await send('MKCOL', 'locked');
  const body =
    '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>';
  const made = await send('LOCK', 'locked/new', { body, headers: { timeout: 'Second-600' } });
  const token = made.headers.get('lock-token') ?? '';
  expect([made.status, token.length <= 54]).toEqual([201, true]);
  expect(await commands.runWell(SPACE, 'ls', 'locked')).toBe('new\n');
  expect(await statusOf('LOCK', 'locked/new', { body })).toBe(423);
  expect(await statusOf('PUT', 'locked/new', { body: 'x' })).toBe(423);
  expect(await statusOf('DELETE', 'locked/new')).toBe(423);
  expect(await statusOf('PROPPATCH', 'locked/new', { body: patchOf('<x/>') })).toBe(423);
  const destination = `${url}locked/new`;
  await send('PUT', 'locked/other', { body: 'x' });
  expect(await statusOf('MOVE', 'locked/other', { headers: { destination } })).toBe(423);
  const headers = { if: `(${token})` };
  expect(await statusOf('LOCK', 'locked/new', { headers })).toBe(200);
  expect(await statusOf('PUT', 'locked/new', { body: 'x', headers })).toBe(204);
  expect(await statusOf('PUT', 'locked/new', { body: 'x', headers: { if: '(<no:lock>)' } })).toBe(412);
  expect(await statusOf('PUT', 'locked/new', { body: 'x', headers: { if: 'no list' } })).toBe(400);
  expect(await statusOf('UNLOCK', 'locked/other', { headers: { 'lock-token': token } })).toBe(409);
  expect(await statusOf('UNLOCK', 'locked/new', { headers: { 'lock-token': token } })).toBe(204);
  expect(await statusOf('DELETE', 'locked/new')).toBe(204);
});

test('bodies that are no XML, or too much of it, are refused', async () => {
  const nested = (levels: number): string =>
    `<propfind xmlns="DAV:"><prop>${'<a>'.repeat(levels)}${'</a>'.repeat(levels)}</prop></propfind>`;
  const wrong = [
    '<!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:"><allprop/></propfind>',
    'text',
    '<propfind xmlns="DAV:"><prop>',
    '<propfind xmlns="DAV:"><prop>&b;</prop></propfind>',
    '<propfind xmlns="DAV:"><prop><b:c/></prop></propfind>',
    nested(31),
  ];
  const find = (body: string) => statusOf('PROPFIND', '', { headers: { depth: '0' }, body });
  expect(await Promise.all(wrong.map(find))).toEqual(wrong.map(() => 400));
  expect(await find(nested(30))).toBe(207);
  expect(await find(' '.repeat(1024 * 1024 + 1))).toBe(413);
});

test('old snapshots are read, and a copy out of them restores', async () => {
  const headers = { depth: '1' };
  const root = await (await send('PROPFIND', '', { headers })).text();
  expect([root.includes('/.snapshots'), root.includes('<D:href>/tree/</D:href>')]).toEqual([false, true]);
  const content = await (await send('GET', 'tree/a.txt')).text();
  expect(await statusOf('DELETE', 'tree/a.txt')).toBe(204);
  // Two snapshots of one second have digits of their IDs.
  const times = await (await send('PROPFIND', '.snapshots/tree', { headers })).text();
  const [time = ''] = /\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(?:-[0-9a-f]{8})?/.exec(times) ?? [];
  const old = `.snapshots/tree/${time}/a.txt`;
  const destination = `${url}tree/a.txt`;
  expect(await statusOf('MOVE', old, { headers: { destination } })).toBe(403);
  expect(await statusOf('COPY', old, { headers: { destination } })).toBe(201);
  expect(await (await send('GET', 'tree/a.txt')).text()).toBe(content);
  for (const method of ['PUT', 'DELETE', 'MKCOL', 'PROPPATCH', 'LOCK', 'UNLOCK'])
    expect([method, await statusOf(method, old)]).toEqual([method, 403]);
  expect(await statusOf('COPY', 'tree/a.txt', { headers: { destination: `${url}${old}` } })).toBe(403);
  expect(await statusOf('GET', `.snapshots/tree/${time}/none`)).toBe(404);
});

test('what cannot be shown is counted and stays', async () => {
  expect(await (await send('GET', 'tree/')).text()).toContain('2 left out');
  expect(await statusOf('GET', 'tree/link')).toBe(404);
  expect(await statusOf('DELETE', 'tree/link')).toBe(404);
  expect(await statusOf('PUT', 'tree/link', { body: 'x' })).toBe(409);
  await send('PUT', 'tree/beside', { body: 'x' });
  expect(await commands.runWell(SPACE, 'ls', 'tree')).toContain('link');
});

test('a name may be a file; a page links to what is there and may download', async () => {
  const source = commands.fresh('file');
  writePlan(source, file(5, 1));
  await commands.runWell(SPACE, 'push', source, '--name', 'alone', '--quiet');
  // Changes of others become visible within seconds.
  await until(async () => (await statusOf('HEAD', 'alone')) === 200);
  const page = await send('GET', '');
  expect(await page.text()).toContain('<a href="/alone">alone</a></li>');
  expect(page.headers.get('content-security-policy')).not.toContain('sandbox');
  expect((await send('GET', 'alone')).headers.get('content-security-policy')).toContain('sandbox');
  expect(await (await send('GET', 'notes')).text()).toContain('<a href="/notes/moved/">moved/</a>');
  expect(await statusOf('PUT', 'alone', { body: 'x' })).toBe(403);
  expect(await statusOf('PUT', 'alone/x', { body: 'x' })).toBe(409);
});

test('addresses that can be nothing here are refused', async () => {
  const statuses: Record<string, number> = {
    'notes/%01': 400,
    'notes/%2e%2e%2fx': 400,
    'notes//x': 400,
    'notes/%ff': 400,
    [`notes/${'x'.repeat(256)}`]: 400,
    [`notes/${'x'.repeat(200)}`]: 404,
    [`notes/${'x/'.repeat(9_000)}x`]: 414,
    [`notes/${'x'.repeat(100_000)}`]: 414,
  };
  for (const [path, status] of Object.entries(statuses)) {
    expect([path, await statusOf('GET', path)]).toEqual([path, status]);
  }
  expect(await statusOf('MKCOL', '%20')).toBe(403);
  const headers = { 'content-range': 'bytes 0-0/2' };
  expect(await statusOf('PUT', 'notes/x', { headers, body: 'x' })).toBe(400);
  const { port, host } = new URL(url);
  const endless = `PUT /notes/x HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${authorization}\r\n\r\n`;
  expect(statusesOf(await exchange(Number(port), endless, 0, 1))).toEqual([411]);
});

test('times and checksums of ownCloud are kept', async () => {
  const headers = { 'x-oc-mtime': '1000000000', 'oc-checksum': `SHA1:${'0'.repeat(40)}` };
  await send('MKCOL', 'oc');
  expect(await statusOf('PUT', 'oc/f', { headers, body: 'x' })).toBe(400);
  const right = { ...headers, 'oc-checksum': 'SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072' };
  const put = await send('PUT', 'oc/f', { headers: right, body: 'x' });
  expect([put.status, put.headers.get('x-oc-mtime')]).toEqual([201, 'accepted']);
  const body = '<propfind xmlns="DAV:"><prop><checksums xmlns="http://owncloud.org/ns"/></prop></propfind>';
  const found = await send('PROPFIND', 'oc/f', { headers: { depth: '0' }, body });
  expect(await found.text()).toContain('SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072 MD5:');
  const time = (await send('HEAD', 'oc/f')).headers.get('last-modified');
  expect(time).toBe('Sun, 09 Sep 2001 01:46:40 GMT');
});

test('a gateway that was started with names changes no others', async () => {
  const given = await startGateway(commands.environment(SPACE), 'webdav', 'mine', '--open');
  const status = async (method: string, path: string, headers = {}, body: string | null = null) =>
    (await fetch(`${given.url}${path}`, { method, headers, body })).status;
  expect(await status('PUT', 'mine/a', {}, 'x')).toBe(201);
  const lock =
    '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>';
  const statuses = [
    await status('PUT', 'tree/x', {}, 'x'),
    await status('MKCOL', 'fresh'),
    await status('COPY', 'mine/a', { destination: `${given.url}tree/x` }),
    await status('MOVE', 'mine/a', { destination: `${given.url}tree/x` }),
    await status('LOCK', 'tree/x', {}, lock),
  ];
  expect(statuses).toEqual([403, 403, 403, 403, 403]);
  expect(await status('GET', 'mine/a', { 'if-none-match': `W/"${'x'.repeat(43)}"` })).toBe(200);
  const { headers } = await fetch(`${given.url}mine/a`);
  expect(await status('GET', 'mine/a', { 'if-none-match': `W/${headers.get('etag')}` })).toBe(304);
  expect(await endGateway(given)).toBe(0);
});

test('a signal ends it well, and it said once what it left out', async () => {
  door.kill('SIGTERM');
  expect(await door.exited).toBe(0);
  const told = (await new Response(door.stderr).text()).match(/left out/g);
  expect(told).toHaveLength(1);
});
