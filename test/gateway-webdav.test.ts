/** `holdfast gateway webdav` over a real server: what is written, what is refused, and how it ends. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { CHECKOUT_HOLDFAST } from './support/holdfast-command.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'webdav';
let commands: TreeCommands;
let door: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
let url = '';
let authorization = '';

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-webdav');
  door = Bun.spawn([CHECKOUT_HOLDFAST, 'gateway', 'webdav', '--listen', '127.0.0.1:0'], {
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
  expect(await statusOf('GET', '', { headers: { origin: 'http://elsewhere.test' } })).toBe(403);
  expect(await statusOf('GET', 'notes/a%2fb')).toBe(400);
  expect(await statusOf('GET', 'notes/%00')).toBe(400);
  expect(await statusOf('PUT', 'new', { body: 'x' })).toBe(403);
  expect(await statusOf('DELETE', 'notes')).toBe(403);
  expect(await statusOf('PROPFIND', 'notes', { headers: { depth: 'infinity' } })).toBe(403);
  expect(await statusOf('PUT', 'notes/moved', { body: 'x' })).toBe(405);
  expect(await commands.runBadly(2, SPACE, 'gateway', 'webdav', '--open', '--user', 'me')).toContain(
    '--open',
  );
});

test('a signal ends it well', async () => {
  door.kill('SIGTERM');
  expect(await door.exited).toBe(0);
});
