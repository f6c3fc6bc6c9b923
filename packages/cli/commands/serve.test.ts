/** `holdfast serve` as its own process: what it prints, how it ends, and several workers on one port. */
import { afterEach, describe, expect, test } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import type { CommandResult } from '../../../test/support/command-result.ts';
import { CHECKOUT_HOLDFAST, HOLDFAST } from '../../../test/support/holdfast-command.ts';
import { makeIssuer } from '../../../test/support/issuer.ts';
import {
  addApp,
  findDescendants,
  runHoldfast,
  type ServerOptions,
  type ServerProcess,
  startServer,
  tryStartServer,
} from '../../../test/support/server-process.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { until } from '../../../test/support/until.ts';

/** Undone after each test, last first. */
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function makeFolder(): string {
  const folder = makeTempFolder('serve');
  cleanups.push(() => folder.remove());
  return folder.path;
}

async function start(options: Partial<ServerOptions> = {}): Promise<ServerProcess> {
  const server = await startServer({
    program: HOLDFAST,
    data: join(makeFolder(), 'data'),
    ...options,
  });
  cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
  return server;
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}/stat`);

/** A raw connection: what came so far, and when it was closed. */
function open(port: number, text: string) {
  const socket = connect(port, '127.0.0.1', () => {
    socket.write(text, () => {
      state.isSent = true;
    });
  });
  const state = { text: '', isSent: false, isClosed: false };
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    state.text += chunk;
  });
  for (const event of ['end', 'close', 'error']) {
    socket.on(event, () => {
      state.isClosed = true;
    });
  }
  cleanups.push(() => socket.destroy());
  return { socket, state };
}

function environmentOf(home: string): Record<string, string> {
  return { PATH: process.env.PATH ?? '', HOME: home };
}

/** Starts `serve --dev` and takes its stdout until the last line of the walk. Its person's home is beside the data. */
async function startDev(data: string, ...args: string[]) {
  const child = Bun.spawn([CHECKOUT_HOLDFAST, 'serve', '--dev', '--data', data, ...args], {
    env: environmentOf(dirname(data)),
    stdout: 'pipe',
    stderr: 'ignore',
    stdin: 'ignore',
  });
  cleanups.push(async () => {
    child.kill('SIGKILL');
    await child.exited;
  });
  let text = '';
  const decoder = new TextDecoder();
  const reader = child.stdout.getReader();
  while (!/npx holdfast .*\n$/.test(text)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`serve --dev ended: ${text}`);
    text += decoder.decode(value, { stream: true });
  }
  const exports = Object.fromEntries(
    [...text.matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  );
  return { child, lines: text.trimEnd().split('\n'), exports: exports as Record<string, string> };
}

describe('--dev', () => {
  test('keeps a profile, so that commands on this machine need no variables; a default of the person stays', async () => {
    const home = makeFolder();
    const run = (...args: string[]) => {
      const { stdout, stderr, exitCode } = Bun.spawnSync([CHECKOUT_HOLDFAST, ...args], {
        env: environmentOf(home),
      });
      return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
    };
    const first = await startDev(join(home, 'data'), '--listen', '127.0.0.1:0');
    expect(first.lines.at(-1)).toBe('#   npx holdfast usage');
    expect(run('usage', '--json').exitCode).toBe(0);
    expect(statSync(join(home, '.config', 'holdfast', 'profiles.json')).mode & 0o777).toBe(0o600);
    // Another server, with a key of its own and the same issuer, is the one that is tried out from now on.
    const second = await startDev(join(home, 'other'), '--listen', '127.0.0.1:0');
    expect(JSON.parse(run('profiles', '--json').stdout)).toMatchObject([
      { name: 'dev', isDefault: true, url: second.exports.HOLDFAST_URL },
    ]);
    const mine = ['--url', 'https://cas.example', '--app', 'walk', '--space', 'home', '--no-check'];
    writeFileSync(join(home, 'token'), 'a.b.c', { mode: 0o600 });
    expect(run('login', 'work', ...mine, '--token-file', join(home, 'token'), '--default').exitCode).toBe(0);
    const third = await startDev(join(home, 'third'), '--listen', '127.0.0.1:0');
    expect(third.lines.at(-1)).toBe('#   npx holdfast usage --profile dev');
    expect(run('usage', '--json', '--profile', 'dev').exitCode).toBe(0);
    expect(JSON.parse(run('profiles', '--json').stdout)).toMatchObject([
      { name: 'dev', isDefault: false },
      { name: 'work', isDefault: true },
    ]);
    // A profile of that name which the person made for another server is not touched.
    expect(run('login', 'dev', ...mine, '--token-file', join(home, 'token')).exitCode).toBe(0);
    await startDev(join(home, 'fourth'), '--listen', '127.0.0.1:0');
    expect(JSON.parse(run('profiles', '--json').stdout)[0].url).toBe('https://cas.example');
  }, 300_000);

  test("prints the listening line, the operators' line, then exports that work and a first command", async () => {
    const data = join(makeFolder(), 'data');
    const { lines, exports } = await startDev(data, '--listen', '127.0.0.1:0');
    expect(lines[0]).toMatch(/^holdfast listening on http:\/\/127\.0\.0\.1:\d+$/);
    expect(lines[1]).toMatch(/^operators: http:\/\/127\.0\.0\.1:\d+$/);
    expect(Object.keys(exports)).toEqual([
      'HOLDFAST_URL',
      'HOLDFAST_APP',
      'HOLDFAST_SPACE',
      'HOLDFAST_TOKEN',
    ]);
    expect(lines[0]).toEndWith(exports.HOLDFAST_URL as string);
    for (const line of lines.slice(6)) expect(line).toStartWith('#');
    const { HOLDFAST_URL: url, HOLDFAST_SPACE: space, HOLDFAST_TOKEN: token } = exports;
    const spaceUrl = `${url}/v1/apps/demo/spaces/${space}`;
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${spaceUrl}/cas/usage`, { headers })).status).toBe(200);
    expect((await fetch(`${spaceUrl}/root-refs`, { headers })).status).toBe(200);
    expect((await fetch(`${spaceUrl}/cas/gc`, { method: 'POST', headers })).status).toBe(200);
    const claims = JSON.parse(Buffer.from((token as string).split('.')[1] as string, 'base64url').toString());
    expect(claims.exp - claims.iat).toBe(24 * 60 * 60);
    expect(statSync(join(data, 'dev-key.jwk')).mode & 0o777).toBe(0o600);
    const command = /# +npx holdfast (.*)/.exec(lines.at(-1) as string)?.[1] as string;
    const { exitCode } = await runHoldfast(command.split(' '), { environment: exports });
    expect(exitCode).toBe(0);
  });

  test('a token stays good over a restart: the key stays', async () => {
    const data = join(makeFolder(), 'data');
    const first = await startDev(data, '--listen', '127.0.0.1:0');
    first.child.kill('SIGTERM');
    expect(await first.child.exited).toBe(0);
    const second = await startDev(data, '--listen', '127.0.0.1:0');
    const response = await fetch(`${second.exports.HOLDFAST_URL}/v1/apps/demo/spaces/home/cas/usage`, {
      headers: { authorization: `Bearer ${first.exports.HOLDFAST_TOKEN}` },
    });
    expect(response.status).toBe(200);
  });

  test('a start without it suspends the App, a start with it takes it up again', async () => {
    const data = join(makeFolder(), 'data');
    const first = await startDev(data, '--listen', '127.0.0.1:0');
    const ask = async (url: string): Promise<unknown> => {
      const headers = { authorization: `Bearer ${first.exports.HOLDFAST_TOKEN}` };
      const answer = await fetch(`${url}/v1/apps/demo/spaces/home/cas/usage`, { headers });
      return answer.ok ? 'ok' : ((await answer.json()) as { error: string }).error;
    };
    expect(await ask(first.exports.HOLDFAST_URL as string)).toBe('ok');
    first.child.kill('SIGTERM');
    await first.child.exited;
    const plain = await start({ data });
    expect(await ask(plain.url)).toBe('APP_SUSPENDED');
    expect(await plain.end('SIGTERM')).toBe(0);
    const again = await startDev(data, '--listen', '127.0.0.1:0');
    expect(await ask(again.exports.HOLDFAST_URL as string)).toBe('ok');
  });

  test("an operator's own App of that name is not touched", async () => {
    const data = join(makeFolder(), 'data');
    const folder = makeFolder();
    const [key, jwks] = [join(folder, 'k.jwk'), join(folder, 'k.json')];
    expect((await runHoldfast(['key', 'new', '--out', key, '--jwks', jwks])).exitCode).toBe(0);
    const server = await start({ data });
    const own = ['--issuer', 'own', '--audience', 'holdfast', '--jwks-file', jwks, '--data', data];
    expect((await runHoldfast(['app', 'add', 'demo', ...own])).exitCode).toBe(0);
    expect(await server.end('SIGTERM')).toBe(0);
    const again = await start({ data });
    const { stdout } = await runHoldfast(['app', 'list', '--json', '--data', data]);
    expect(JSON.parse(stdout)).toMatchObject([{ appId: 'demo', issuer: 'own', status: 'active' }]);
    expect(await again.end('SIGTERM')).toBe(0);
  });
});

describe('listening', () => {
  test('an IPv6 host is printed in brackets, and the folder is private', async () => {
    const data = join(makeFolder(), 'data');
    const server = await start({ data, arguments: ['--listen', '[::1]:0'] });
    expect(server.url).toMatch(/^http:\/\/\[::1\]:\d+$/);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(data)) expect(statSync(join(data, name)).mode & 0o077).toBe(0);
  });

  test.each<[string, string[], number, RegExp]>([
    ['an address of another machine', ['--listen', '203.0.113.1:0'], 1, /203\.0\.113\.1:0.*--listen/],
    [
      'a host that is no host',
      ['--listen', 'no-such-host.invalid:0'],
      1,
      /no-such-host\.invalid:0.*--listen/,
    ],
    [
      '--dev for every machine',
      ['--dev', '--listen', '0.0.0.0:0'],
      2,
      /--dev .* loopback alone and not on "0\.0\.0\.0"/,
    ],
    ['wrong usage', ['--workers', 'many'], 2, /--workers "many"/],
    ['rows in a database without bytes in S3', ['--metadata', 'postgres://u:hush@h/d'], 2, /needs --content/],
    ['a store that is none', ['--content', 's3://u:hush@bucket'], 2, /--content.*AWS_ACCESS_KEY_ID/],
  ])('%s is one clear line', async (_, args, exitCode, message) => {
    const outcome = (await tryStartServer({
      program: CHECKOUT_HOLDFAST,
      data: join(makeFolder(), 'data'),
      arguments: args,
    })) as CommandResult;
    expect(outcome).toMatchObject({ exitCode, stdout: '' });
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1);
    expect(outcome.stderr).not.toContain('hush');
  });

  test('a folder that may not be written is one clear line', async () => {
    const parent = makeFolder();
    const data = join(parent, 'data');
    mkdirSync(data, { mode: 0o555 });
    // Root may write everywhere; as nobody it may not.
    const wrapper = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--clear-groups'] : [];
    chmodSync(parent, 0o755);
    const outcome = (await tryStartServer({ program: CHECKOUT_HOLDFAST, data, wrapper })) as CommandResult;
    expect(outcome).toMatchObject({ exitCode: 1, stdout: '' });
    expect(outcome.stderr).toMatch(/^holdfast: the data folder .* cannot be written: .*\n$/);
  });
});

describe('the end', () => {
  /** Less than a drain lasts while a request is in flight. */
  const ONCE_MS_MAX = 8000;
  /** So long a request in flight may take. */
  const IN_FLIGHT_MS_MIN = 10_000;
  const LATE_MS_MAX = 500;
  const ROUNDS_MAX = 5;

  /** A server that waits for the body of a request it has let in. */
  async function startBusy() {
    const data = join(makeFolder(), 'data');
    mkdirSync(data);
    const issuer = makeIssuer();
    await addApp(data, 'app', issuer);
    const server = await start({ data });
    const head = [
      'POST /v1/apps/app/spaces/space/cas/gc HTTP/1.1',
      'Host: h',
      'Content-Type: application/json',
      'Content-Length: 2',
      `Authorization: Bearer ${issuer.token('space')}`,
    ];
    const request = open(server.port, `${head.join('\r\n')}\r\n\r\n`);
    await until(() => request.state.isSent);
    // A server takes requests in turn: these answers show that it has taken the earlier one.
    for (let times = 0; times < 3; times += 1) {
      expect((await fetch(`${server.url}/health`, { keepalive: false })).status).toBe(200);
    }
    return { server, request };
  }

  test('an idle server ends at once, and closes idle connections', async () => {
    const server = await start();
    const idle = open(server.port, 'GET /health HTTP/1.1\r\nHost: h\r\n\r\n');
    const partial = open(server.port, 'GET /hea');
    await until(() => idle.state.text.includes('ok'));
    const startedAt = Date.now();
    expect(await server.end('SIGTERM')).toBe(0);
    expect(Date.now() - startedAt).toBeLessThan(ONCE_MS_MAX);
    await until(() => idle.state.isClosed && partial.state.isClosed);
  });

  test('a request in flight is answered, new connections are not taken', async () => {
    for (let round = 1; ; round += 1) {
      const { server, request } = await startBusy();
      const toldAt = performance.now();
      const ended = server.end('SIGTERM');
      await Bun.sleep(IN_FLIGHT_MS_MIN);
      const isRunning = server.isRunning();
      const refused = fetch(`${server.url}/health`).then(
        () => false,
        () => true,
      );
      request.socket.write('{}');
      const isLate = performance.now() - toldAt > IN_FLIGHT_MS_MIN + LATE_MS_MAX;
      const outcome = [isRunning, await refused, await ended];
      // This process stood still: the body came later than it was meant to.
      if (isLate && round < ROUNDS_MAX) continue;
      expect(outcome).toEqual([true, true, 0]);
      expect(request.state.text).toStartWith('HTTP/1.1 200');
      expect(request.state.text).toContain('"examined":0');
      return;
    }
  }, 300_000);

  test('a start that waits for what never answers ends too', async () => {
    const data = join(makeFolder(), 'data');
    using silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => undefined } });
    const content = `s3://bucket?endpoint=http://127.0.0.1:${silent.port}`;
    const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' };
    const args = ['serve', '--listen', '127.0.0.1:0', '--data', data, '--content', content];
    const child = Bun.spawn([CHECKOUT_HOLDFAST, ...args], {
      env: { ...process.env, ...keys },
      stderr: 'ignore',
    });
    await until(() => existsSync(join(data, 'lock.db')));
    child.kill('SIGTERM');
    expect(await child.exited).toBe(0);
  });

  test('a second signal ends it at once', async () => {
    const { server } = await startBusy();
    process.kill(server.pid, 'SIGTERM');
    // Two signals that meet are one.
    await until(() => server.log().includes('"draining"'));
    await Bun.sleep(300);
    expect(server.isRunning()).toBe(true);
    const startedAt = Date.now();
    expect(await server.end('SIGTERM')).toBe(1);
    expect(Date.now() - startedAt).toBeLessThan(ONCE_MS_MAX);
  });
});

describe('--workers 2', () => {
  test('both serve one port; a dead one is replaced; the drain goes to all', async () => {
    const server = await start({ arguments: ['--workers', '2'] });
    const workers = findDescendants(server.pid);
    expect(workers).toHaveLength(2);
    process.kill(workers[0] as number, 'SIGKILL');
    await until(() => findDescendants(server.pid).filter((pid) => pid !== workers[0]).length === 2);
    await until(() => /another takes its place/.test(server.log()));
    for (let round = 0; round < 40; round += 1) {
      const response = await fetch(`${server.url}/health`, { headers: { connection: 'close' } }).catch(
        () => undefined,
      );
      if (response === undefined) await Bun.sleep(100);
      else expect(response.status).toBe(200);
    }
    const last = findDescendants(server.pid);
    expect(await server.end('SIGTERM')).toBe(0);
    for (const pid of last) expect(isAlive(pid)).toBe(false);
  });

  test('workers do not outlive a supervisor that is killed', async () => {
    const server = await start({ arguments: ['--workers', '2'] });
    const workers = findDescendants(server.pid);
    await server.end('SIGKILL');
    await until(() => workers.every((pid) => !isAlive(pid)));
  });

  test('a port in use is found although workers share theirs', async () => {
    const first = await start({ arguments: ['--workers', '2'] });
    const outcome = (await tryStartServer({
      program: CHECKOUT_HOLDFAST,
      data: join(makeFolder(), 'data'),
      arguments: ['--listen', `127.0.0.1:${first.port}`, '--workers', '2'],
    })) as CommandResult;
    expect(outcome).toMatchObject({ exitCode: 1, stdout: '' });
    expect(outcome.stderr).toMatch(new RegExp(`^holdfast: 127\\.0\\.0\\.1:${first.port} is in use: .*\\n$`));
  });
});
