/**
 * `holdfast gateway webdav` is killed while clients write: the tree has everything that was answered, and nothing that was not
 * asked for. Its answers while its server answers nothing.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'webdav-killed';
const WRITERS = 4;
const ANSWERS_BEFORE_KILL = 12;
const ROUNDS_MAX = 1_000;
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('gateway-webdav-killed');
});
afterAll(() => commands.remove());

function startDoor(serverUrl = commands.running.server.url): Promise<GatewayProcess> {
  return startGateway(commands.environment(SPACE, serverUrl), 'webdav', '--open');
}

test('kill -9 under writes loses nothing that was answered', async () => {
  const { process: door, url } = await startDoor();
  expect((await fetch(`${url}kept`, { method: 'MKCOL' })).status).toBe(201);
  const answered = new Map<string, string>();
  const asked = new Set<string>();
  const write = async (writer: number): Promise<void> => {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const [name, body] = [`w${writer}-${round}`, `${writer} ${round}`];
      asked.add(name);
      const answer = await fetch(`${url}kept/${name}`, { method: 'PUT', body }).catch(() => undefined);
      if (answer === undefined) return;
      expect(answer.status).toBe(201);
      answered.set(name, body);
      // The others are in the midst of theirs.
      if (answered.size === ANSWERS_BEFORE_KILL) door.kill('SIGKILL');
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
  await door.exited;
  const listed = (await commands.runWell(SPACE, 'ls', 'kept')).trimEnd().split('\n');
  expect(listed.filter((name) => !asked.has(name))).toEqual([]);
  expect([...answered.keys()].filter((name) => !listed.includes(name))).toEqual([]);
  const again = await startDoor();
  for (const [name, body] of answered)
    expect(await (await fetch(`${again.url}kept/${name}`)).text()).toBe(body);
  expect(await endGateway(again)).toBe(0);
});

test('while the server answers nothing, each request is 503 and says when to come again', async () => {
  const silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => undefined } });
  const silenced = await startDoor(`http://127.0.0.1:${silent.port}`);
  const { url } = silenced;
  const cache = await startGateway(
    commands.environment(SPACE, `http://127.0.0.1:${silent.port}`),
    'cache',
    '--open',
  );
  const answers = await Promise.all([
    fetch(`${url}a`, { method: 'PROPFIND', headers: { depth: '0' } }),
    fetch(`${url}a/b`, { method: 'PUT', body: 'x' }),
    fetch(`${url}a/b`),
    fetch(url, { method: 'OPTIONS' }),
    ...['OPTIONS', 'HEAD', 'MKCOL'].map((method) => fetch(`${cache.url}a`, { method })),
  ]);
  expect(answers.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual(
    answers.map(() => [503, '2']),
  );
  expect(await Promise.all([endGateway(silenced), endGateway(cache)])).toEqual([0, 0]);
  silent.stop(true);
});
