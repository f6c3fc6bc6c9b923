/** A backup that an operator asks a real server for: who may ask, where it may go, and the reported progress. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp, runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const START_MS_MAX = 300_000;
const TOKEN = 'the-operators-of-this-very-test-alone';
const NODES = 40;
const folder = makeTempFolder('operator-backup');
const at = (name: string): string => join(folder.path, name);
let server: ServerProcess;
let operators: string;

async function start(...more: readonly string[]): Promise<string> {
  server = await startServer({
    data: at('data'),
    arguments: ['--operator-listen', '127.0.0.1:0', '--operator-token-file', at('token'), ...more],
  });
  await until(() => server.output().includes('operators: '));
  return /^operators: (\S+)$/m.exec(server.output())?.[1] as string;
}

beforeAll(async () => {
  mkdirSync(at('data'));
  writeFileSync(at('token'), `${TOKEN}\n`, { mode: 0o600 });
  const issuer = makeIssuer('https://backed-up.test');
  await addApp(at('data'), 'app', issuer);
  operators = await start();
  const client = makeSpaceClient(server.url, 'app', 'space', issuer.token('space'));
  for (let index = 0; index < NODES; index += 1) await client.store(makeNode(`node ${index}`));
}, START_MS_MAX);
afterAll(async () => {
  if (server?.isRunning()) await server.end('SIGKILL');
  folder.remove();
});

async function ask(method: 'GET' | 'POST', input?: object, token: string | undefined = TOKEN) {
  const answer = await fetch(`${operators}/operator/v1/backup`, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(input === undefined ? {} : { body: JSON.stringify(input) }),
  });
  return { status: answer.status, json: await answer.json() };
}

type Answer = Awaited<ReturnType<typeof ask>>;

/** Resolves with what `see` found while a backup ran, and with that backup. One so small may be over before it is seen: then another is made. */
async function duringBackup<Seen>(name: string, see: () => Promise<Seen | undefined>) {
  let seen: Seen | undefined;
  let made: Promise<Answer | undefined> = Promise.resolve(undefined);
  await until(async () => {
    let isOver = false;
    made = ask('POST', { folder: at(name) })
      // The server may end before it answers.
      .catch(() => undefined)
      .finally(() => {
        isOver = true;
      });
    while (seen === undefined && !isOver) seen = await see();
    return seen !== undefined;
  });
  return { made, seen: seen as Seen };
}

const seeRunning = async () => (await ask('GET')).json.running ?? undefined;

test('a backup by the server is as good as one by the command line', async () => {
  expect(await ask('GET')).toEqual({ status: 200, json: { running: null, lastSuccessAt: null } });
  const startedAt = Date.now();
  const { made, seen } = await duringBackup('made', seeRunning);
  expect(seen).toMatchObject({ folder: at('made'), progress: expect.any(String) });
  expect(await made).toMatchObject({ status: 200, json: { nodes: NODES } });
  expect((await runHoldfast(['backup', 'check', at('made')])).exitCode).toBe(0);
  const after = (await ask('GET')).json;
  expect(after.running).toBeNull();
  expect(after.lastSuccessAt).toBeGreaterThanOrEqual(startedAt);
});

test('a backup by the server needs the token and an absolute folder apart from the data, and runs alone', async () => {
  expect((await ask('POST', { folder: at('other') }, 'another-token')).status).toBe(401);
  expect((await ask('POST', { folder: 'relative' })).status).toBe(400);
  symlinkSync(at('data'), at('link'));
  for (const inside of [join(at('data'), 'inside'), join(at('link'), 'inside')]) {
    const { status, json } = await ask('POST', { folder: inside });
    expect([status, json.code]).toEqual([409, 'CONFLICT']);
    expect(json.detail).toContain('is inside the data folder');
  }
  expect(existsSync(join(at('data'), 'inside'))).toBe(false);
  const { made, seen } = await duringBackup('one', async () => {
    const second = await ask('POST', { folder: at('two') });
    return second.status === 200 ? undefined : second;
  });
  expect(seen).toMatchObject({ status: 409, json: { detail: expect.stringContaining('is under way') } });
  expect((await made)?.status).toBe(200);
});

test('a backup by the server ends with the server, which does not wait for it', async () => {
  const { made } = await duringBackup('made', seeRunning);
  expect(await server.end('SIGTERM')).toBe(0);
  await made;
  expect((await runHoldfast(['backup', 'check', at('made')])).exitCode).toBe(0);
  // Several processes: the first one is asked.
  operators = await start('--workers', '2');
  const { status, json } = await ask('POST', { folder: at('made') });
  expect([status, json.nodes]).toEqual([200, NODES]);
});
