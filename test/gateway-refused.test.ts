/** Gateways whose server refuses: a quota, and a token that is renewed in its file. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { endGateway, startGateway } from './support/gateway-process.ts';
import { APP } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'refused';
const LARGE_BYTES = 600_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-refused');
});
afterAll(() => commands.remove());

test('a write over the quota is 507, and what was there is still read', async () => {
  const environment = commands.environment(SPACE);
  const doors = await Promise.all(['cache', 'webdav'].map((kind) => startGateway(environment, kind)));
  const [cache, webdav] = doors.map(
    ({ url, headers }) =>
      async (method: string, path: string, body?: BodyInit) => {
        const answer = await fetch(`${url}${path}`, {
          method,
          headers,
          ...(body === undefined ? {} : { body }),
        });
        await answer.arrayBuffer();
        return answer.status;
      },
  );
  if (cache === undefined || webdav === undefined) throw new Error('there are two gateways');
  expect([await cache('PUT', 'k', 'small'), await webdav('MKCOL', 'n')]).toEqual([201, 201]);
  const limit = [
    'app',
    'set',
    APP,
    '--space',
    SPACE,
    '--max-bytes',
    '100KiB',
    '--data',
    commands.running.data,
  ];
  expect((await runHoldfast(limit)).exitCode).toBe(0);
  // The quota counts what is stored, so the bytes are such as nothing makes smaller.
  const bodies = [LARGE_BYTES, LARGE_BYTES / 4].map((length) => () => new Uint8Array(randomBytes(length)));
  for (const [at, body] of bodies.entries()) {
    // The quota takes effect within some seconds.
    await until(async () => (await cache('PUT', `k${at}`, body())) === 507);
    expect(await webdav('PUT', `n/f${at}`, body())).toBe(507);
  }
  expect([await cache('GET', 'k'), await webdav('HEAD', 'n/f0')]).toEqual([200, 404]);
  expect(await Promise.all(doors.map(endGateway))).toEqual([0, 0]);
});

test('a token that the server refuses is 503 until its file has another', async () => {
  const tokenFile = commands.fresh('token');
  const { HOLDFAST_TOKEN: token = '', ...environment } = commands.environment(SPACE);
  const write = (text: string): void => writeFileSync(tokenFile, text, { mode: 0o600 });
  // Another key signed it.
  write(`${token.slice(0, -8)}AAAAAAAA`);
  const door = await startGateway(environment, 'cache', '--token-file', tokenFile);
  const get = async (): Promise<number> =>
    (await fetch(`${door.url}absent`, { headers: door.headers })).status;
  expect(await get()).toBe(503);
  write(token);
  await until(async () => (await get()) === 404);
  expect(await endGateway(door)).toBe(0);
});

test('where the server asks to wait for longer than a moment, so does the gateway, but not for ever', async () => {
  let asked = '9';
  const busy = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    fetch: () =>
      Response.json(
        { error: { code: 'RESOURCE_EXHAUSTED', message: 'too much' } },
        { status: 429, headers: { 'retry-after': asked } },
      ),
  });
  const environment = commands.environment(SPACE, `http://127.0.0.1:${busy.port}`);
  const doors = await Promise.all(['cache', 'webdav'].map((kind) => startGateway(environment, kind)));
  const askedOf = async () =>
    Promise.all(
      doors.map(async ({ url, headers }) => {
        const answer = await fetch(`${url}a/b`, { headers });
        return [answer.status, answer.headers.get('retry-after')];
      }),
    );
  expect((await askedOf()).flat()).toEqual([429, '9', 429, '9']);
  asked = '9'.repeat(17);
  expect((await askedOf()).flat()).toEqual([429, '300', 429, '300']);
  expect(await Promise.all(doors.map(endGateway))).toEqual([0, 0]);
  await busy.stop(true);
});
