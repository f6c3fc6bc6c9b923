import { afterAll, expect, test } from 'bun:test';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { operatorTokenFile } from './support/operator-token.ts';
import { runHoldfast, type ServerProcess, startServer, tryStartServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('operator-tokens');
const servers: ServerProcess[] = [];
afterAll(async () => {
  for (const server of servers) if (server.isRunning()) await server.end('SIGKILL');
  folder.remove();
});

let made = 0;
const newData = (): string => join(folder.path, `data-${++made}`);

async function start(data: string, ...more: readonly string[]) {
  const server = await startServer({
    ...{ data, arguments: ['--operator-listen', '127.0.0.1:0', ...more], stdin: `${secret('p')}\n` },
  });
  servers.push(server);
  await until(() => /^operators: .*\n/m.test(server.output()));
  const lines = server.output().split('\n');
  return { server, url: /^operators: (\S+)$/.exec(lines[1] ?? '')?.[1] as string };
}

const readSpaces = async (...args: readonly string[]): Promise<unknown> => {
  const { exitCode, stdout, stderr } = await runHoldfast(['space', 'list', '--json', ...args]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return JSON.parse(stdout);
};

test(
  'an address that other machines reach needs a token file',
  async () => {
    const data = newData();
    const refused = await tryStartServer({ data, arguments: ['--operator-listen', '0.0.0.0:0'] });
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
    expect('stderr' in refused && refused.stderr).toContain('--operator-token-file FILE');
    // Nothing is made for a server that cannot start.
    expect(existsSync(data)).toBe(false);
  },
  TEST_MS_MAX,
);

const secret = (letter: string): string => letter.repeat(32);

function writeSecret(name: string, text: string, mode = 0o600): string {
  const file = join(folder.path, name);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

test(
  'a token file that others can use, or that cannot be understood, starts no server',
  async () => {
    const data = newData();
    const files: [string, string, number?][] = [
      ['exposed', secret('e'), 0o640],
      ['world', secret('e'), 0o604],
      ['short', 'abc'],
      ['twice', `a ${secret('a')}\na ${secret('b')}\n`],
      ['right', `a ${secret('a')} write\n`],
    ];
    await Promise.all(
      files.map(async ([name, text, mode]) => {
        const file = writeSecret(name, text, mode);
        const refused = await tryStartServer({
          data,
          arguments: ['--operator-listen', '127.0.0.1:0', '--operator-token-file', file],
        });
        expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
        const stderr = 'stderr' in refused ? refused.stderr : '';
        expect(stderr).toContain(file);
        expect(stderr).not.toContain('abc');
        expect(stderr).not.toContain(secret('e'));
        expect(stderr.trimEnd()).not.toContain('\n');
      }),
    );
    const exposed = join(folder.path, 'exposed');
    const asked = ['app', 'list', '--operator', 'http://127.0.0.1:9', '--operator-token-file', exposed];
    const client = await runHoldfast(asked);
    expect([client.exitCode, client.stderr]).toEqual([1, expect.stringContaining('chmod 600')]);
    expect(existsSync(data)).toBe(false);
  },
  TEST_MS_MAX,
);

async function statusOf(url: string, token?: string, method = 'GET', body?: object): Promise<number> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token !== undefined) headers.authorization = `Bearer ${token}`;
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  return (await fetch(url, init)).status;
}

test(
  'without a token file the server makes a token, which everything but probes, metrics and the page needs',
  async () => {
    const data = newData();
    const { server, url } = await start(data);
    const file = operatorTokenFile(data);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const token = readFileSync(file, 'utf8').trim();
    for (const path of ['/livez', '/readyz', '/readyz/draining', '/metrics', '/'])
      expect([path, await statusOf(`${url}${path}`)]).toEqual([path, 200]);
    for (const path of ['/operator/v1/status', '/operator/v1/openapi.json', '/nothing']) {
      const response = await fetch(`${url}${path}`);
      expect([path, response.status]).toEqual([path, 401]);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
      expect([path, await statusOf(`${url}${path}`, `${token.slice(1)}x`)]).toEqual([path, 401]);
      expect(await statusOf(`${url}${path}`, token)).toBe(path === '/nothing' ? 404 : 200);
    }
    expect(await server.end('SIGTERM')).toBe(0);
    const again = await start(data);
    expect(await statusOf(`${again.url}/operator/v1/status`, token)).toBe(401);
    const next = readFileSync(file, 'utf8').trim();
    expect(await statusOf(`${again.url}/operator/v1/status`, next)).toBe(200);
    expect(await again.server.end('SIGTERM')).toBe(0);
    for (const { log, output } of [server, again.server])
      for (const each of [token, next]) expect(`${log()}${output()}`).not.toContain(each);
  },
  TEST_MS_MAX,
);

test(
  'each token of a file may do what its line says, and new ones hold without a restart',
  async () => {
    const lines = [
      '# the team',
      `reader ${secret('r')} read`,
      `keeper ${secret('k')} apps spaces until=2999-12-31T23:59:59Z # both`,
      `gone ${secret('g')} all until=2020-01-01T00:00:00Z`,
      `root ${secret('t')}`,
    ];
    const file = writeSecret('team', `${lines.join('\n')}\n`);
    const audit = join(folder.path, 'team-audit.log');
    const data = newData();
    const { server, url } = await start(data, '--operator-token-file', file, '--audit-log', audit);
    expect(existsSync(operatorTokenFile(data))).toBe(false);
    const api = `${url}/operator/v1/`;
    const suspend = (token: string) => statusOf(`${api}apps/suspend`, token, 'POST', { app: 'nobody' });
    const rotate = (token: string) => statusOf(`${api}secret/rotate`, token, 'POST', {});
    expect(await statusOf(`${api}apps`, secret('r'))).toBe(200);
    expect(await statusOf(`${api}status`, secret('r'))).toBe(200);
    expect(await suspend(secret('r'))).toBe(403);
    expect(await suspend(secret('k'))).toBe(404);
    expect(await statusOf(`${api}spaces`, secret('k'))).toBe(200);
    expect(await statusOf(`${api}audit`, secret('k'))).toBe(403);
    expect(await statusOf(`${api}backup`, secret('k'))).toBe(403);
    expect(await statusOf(`${api}status`, secret('g'))).toBe(401);
    expect(await rotate(secret('k'))).toBe(403);
    expect(await rotate(secret('t'))).toBe(200);
    const written = () =>
      readFileSync(audit, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
        .map(({ operation, operator, status }) => [operation, operator, status]);
    const expected = [
      ['operator.apps.suspend', 'reader', 403],
      ['operator.apps.suspend', 'keeper', 404],
      ['operator.secret.rotate', 'root', 200],
    ];
    await until(() => expected.every((line) => written().some((each) => Bun.deepEquals(each, line))));
    const { exitCode, stderr } = await runHoldfast(['space', 'list', '--operator', url]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('--operator-token-file')]);
    const mine = writeSecret('mine', `${secret('r')}\n`);
    expect(await readSpaces('--operator', url, '--operator-token-file', mine)).toEqual([]);
    writeFileSync(file, `${secret('n')}\n`);
    await until(async () => (await statusOf(`${api}status`, secret('n'))) === 200);
    expect(await statusOf(`${api}status`, secret('r'))).toBe(401);
    expect(`${server.log()}${readFileSync(audit, 'utf8')}`).not.toMatch(/r{32}|k{32}|t{32}|n{32}/);
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'tokens can be piped in, also to workers, and a new console link signs in once',
  async () => {
    const data = newData();
    const { server, url } = await start(
      ...([data, '--workers', '2', '--operator-token-file', '/dev/stdin'] as const),
    );
    expect(await statusOf(`${url}/operator/v1/status`, secret('p'))).toBe(200);
    const { stdout } = await runHoldfast(['console', '--data', data]);
    expect(stdout).toStartWith(`${url}/#signin=`);
    const signIn = (code: string) =>
      fetch(`${url}/operator/v1/sign-in`, {
        ...{
          method: 'POST',
          headers: { 'content-type': 'application/json', accept: 'application/jsonl' },
          body: JSON.stringify({ code }),
        },
      });
    const code = stdout.trim().split('#signin=')[1] as string;
    const { operatorToken, ...space } = await (await signIn(code)).json();
    expect(space).toEqual({ url: null, app: null, space: null, token: null });
    expect(await statusOf(`${url}/operator/v1/status`, operatorToken)).toBe(200);
    const refused = await signIn(code);
    // An answer in lines would begin before its status is known, and no guess would be slowed.
    expect(refused.status).toBe(403);
    expect(refused.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    const tooLong = await signIn('x'.repeat(3_000_000));
    expect(tooLong.status).toBe(413);
    expect(tooLong.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(await server.end('SIGTERM')).toBe(0);
    const none = await runHoldfast(['console', '--data', data]);
    expect([none.exitCode, none.stderr]).toEqual([1, expect.stringContaining('no server runs')]);
  },
  TEST_MS_MAX,
);
