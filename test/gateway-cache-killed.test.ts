/** `holdfast gateway cache` killed under writes, beside another one on the same name, and while the server starts again. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'cache-killed';
const WRITERS = 4;
const ANSWERS_BEFORE_KILL = 12;
const ROUNDS_MAX = 1_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-cache-killed');
});
afterAll(() => commands.remove());

const list = async (place: string): Promise<readonly string[]> =>
  (await commands.runWell(SPACE, 'ls', place)).trimEnd().split('\n');
/** Of all folders of the name. */
const keys = async (): Promise<readonly string[]> =>
  (await Promise.all((await list('cache')).map((folder) => list(`cache/${folder}`)))).flat();

test('kill -9 under writes leaves exactly what was answered, and what another gateway wrote', async () => {
  const [killed, other] = await Promise.all([
    startGateway(commands.environment(SPACE), 'cache'),
    startGateway(commands.environment(SPACE), 'cache'),
  ]);
  const answered = new Map<string, string>();
  const asked = new Set<string>();
  let isOver = false;
  const write = async (door: GatewayProcess, writer: string): Promise<void> => {
    for (let round = 0; round < ROUNDS_MAX && !(isOver && door === other); round += 1) {
      const [key, body] = [`${writer}-${round}`, `${writer} ${round}`];
      asked.add(key);
      const { headers, url } = door;
      const answer = await fetch(`${url}${key}`, { method: 'PUT', headers, body }).catch(() => undefined);
      if (answer === undefined) return;
      expect(answer.status).toBe(201);
      answered.set(key, body);
      // The others are in the midst of theirs.
      if (answered.size === ANSWERS_BEFORE_KILL) {
        killed.process.kill('SIGKILL');
        isOver = true;
      }
    }
  };
  const writers = Array.from({ length: WRITERS }, (_, index) => write(killed, `w${index}`));
  await Promise.all([...writers, write(other, 'other')]);
  await killed.process.exited;
  const listed = await keys();
  expect(listed.filter((key) => !asked.has(key))).toEqual([]);
  expect([...answered.keys()].filter((key) => !listed.includes(key))).toEqual([]);
  const { url, headers } = other;
  for (const [key, body] of answered)
    expect(await (await fetch(`${url}${key}`, { headers })).text()).toBe(body);
  expect(await endGateway(other)).toBe(0);
});

test('while the server starts again requests get 503, and what was answered stays', async () => {
  const portOf = () => Number(new URL(commands.running.server.url).port);
  const target = { port: portOf() };
  const proxy = await startTcpProxy(target);
  const environment = commands.environment('restarted', `http://${proxy.address}`);
  const door = await startGateway(environment, 'cache');
  const { url, headers } = door;
  const put = async (key: string) =>
    (await fetch(`${url}${key}`, { method: 'PUT', headers, body: key })).status;
  const answered: string[] = [];
  let isUp = false;
  expect(await put('first')).toBe(201);
  const restarting = commands.running.restart('SIGKILL').then(() => {
    target.port = portOf();
    isUp = true;
  });
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const key = `k${round}`;
    const status = await put(key);
    expect([201, 503]).toContain(status);
    if (status === 201) answered.push(key);
    if (status === 201 && isUp) break;
  }
  await restarting;
  for (const key of ['first', ...answered])
    expect(await (await fetch(`${url}${key}`, { headers })).text()).toBe(key);
  expect(await endGateway(door)).toBe(0);
  await proxy.close();
});

test('a value in memory is not served while the server is away, nor once another gateway removed it', async () => {
  const proxy = await startTcpProxy({ port: Number(new URL(commands.running.server.url).port) });
  const doors = await Promise.all([
    startGateway(commands.environment(SPACE, `http://${proxy.address}`), 'cache', '--open'),
    startGateway(commands.environment(SPACE), 'cache', '--open'),
  ]);
  const [{ url }, { url: other }] = doors;
  const body = new Uint8Array(randomBytes(60_000));
  expect((await fetch(`${url}hot`, { method: 'PUT', body })).status).toBe(201);
  const before = proxy.answerBytes;
  const got = await fetch(`${url}hot`, { headers: { range: 'bytes=1-' } });
  expect([got.status, await got.bytes()]).toEqual([206, body.subarray(1)]);
  expect(proxy.answerBytes - before).toBeLessThan(body.length / 2);
  proxy.setMode({ kind: 'reset' });
  await until(async () => (await fetch(`${url}hot`)).status === 503);
  proxy.setMode({ kind: 'pass' });
  await until(async () => (await fetch(`${url}hot`)).status === 200);
  expect((await fetch(`${other}hot`, { method: 'DELETE' })).status).toBe(204);
  await until(async () => (await fetch(`${url}hot`)).status === 404);
  expect(await Promise.all(doors.map(endGateway))).toEqual([0, 0]);
  await proxy.close();
});
