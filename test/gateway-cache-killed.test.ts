/** `holdfast gateway cache` killed under writes, beside another one on the same name, and while the server starts again. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'cache-killed';
const WRITERS = 4;
const ANSWERS_BEFORE_KILL = 12;
const ROUNDS_MAX = 1_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-cache-killed');
});
afterAll(() => commands.remove());

const keys = async (): Promise<readonly string[]> =>
  (await commands.runWell(SPACE, 'ls', 'cache/keys')).trimEnd().split('\n');

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
