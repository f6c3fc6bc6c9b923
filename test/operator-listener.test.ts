/** The listener for operators and the channel in the data folder, of real servers: who may speak to them, and what survives. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { chmodSync, lstatSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { operatorHeaders, operatorTokenFile } from './support/operator-token.ts';
import {
  readPrinted,
  runHoldfast,
  type ServerProcess,
  startServer,
  tryStartServer,
} from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('operators');
const servers: ServerProcess[] = [];
afterAll(async () => {
  for (const server of servers) if (server.isRunning()) await server.end('SIGKILL');
  folder.remove();
});

let made = 0;
const newData = (): string => join(folder.path, `data-${++made}`);

async function start(data: string, ...more: readonly string[]) {
  const server = await startServer({ data, arguments: ['--operator-listen', '127.0.0.1:0', ...more] });
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
  'on loopback no web page gets anything, by whatever name it reaches the listener, with a token neither',
  async () => {
    const data = newData();
    const { server, url } = await start(data);
    const token = operatorHeaders(data);
    for (const path of ['/', '/livez', '/readyz', '/metrics', '/operator/v1/status', '/nothing']) {
      for (const headers of [{ host: 'rebound.example' }, { origin: 'http://rebound.example' }]) {
        const response = await fetch(`${url}${path}`, { headers: { ...token, ...headers } });
        expect({ path, status: response.status }).toEqual({ path, status: 403 });
        expect(response.headers.get('access-control-allow-origin')).toBeNull();
      }
    }
    const own = await fetch(`${url}/operator/v1/status`, { headers: { ...token, origin: url } });
    expect(own.status).toBe(200);
    for (const host of ['localhost:1', '[::1]:1', '127.9.9.9']) {
      expect((await fetch(`${url}/livez`, { headers: { host } })).status).toBe(200);
    }
    const verbose = await (await fetch(`${url}/readyz?verbose&exclude=engines`)).text();
    expect(verbose).toContain('[+]engines excluded: ok\n');
    expect(verbose).toContain('[+]draining ok\n');
    expect(verbose).toEndWith('readyz check passed\n');
    expect((await fetch(`${url}/readyz/nothing`)).status).toBe(404);
    const mistyped = await fetch(`${url}/readyz?exclude=engine`);
    expect(mistyped.status).toBe(400);
    expect(await mistyped.text()).toBe(
      'engine cannot be excluded: there is no such check; there are draining, audit, engines, schema, disk, strays\n',
    );
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  '--dev takes another port where its own is taken',
  async () => {
    const startForDev = async (): Promise<string> => {
      const server = await startServer({ data: newData(), arguments: ['--dev'] });
      servers.push(server);
      await until(() => /^operators: .*\n/m.test(server.output()));
      return /^operators: (.*)$/m.exec(server.output())?.[1] as string;
    };
    // If the first one does not get it, somebody else of this machine has it: then the first one shows the rule.
    const first = await startForDev();
    const url = new URL(first).port === '8421' ? await startForDev() : first;
    expect(new URL(url).port).not.toBe('8421');
    expect((await fetch(`${url}/livez`)).status).toBe(200);
  },
  TEST_MS_MAX,
);

test(
  'only the owner of the data folder can use its socket, and commands answer alike with a server, without, and over the API',
  async () => {
    const data = newData();
    const { server, url } = await start(data, '--dev');
    const socket = join(data, 'operator.sock');
    expect(lstatSync(socket).isSocket()).toBe(true);
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    // These come after the line of the listener.
    await until(() => /^export HOLDFAST_TOKEN=.*\n/m.test(server.output()));
    const exports = Object.fromEntries(
      [...server.output().matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    );
    const put = await runHoldfast(['push', join(import.meta.dir, 'support', 'until.ts')], {
      environment: exports as Record<string, string>,
    });
    expect(put.exitCode).toBe(0);
    const expected = [
      { app: 'demo', space: 'home', usage: expect.objectContaining({ nodeCount: expect.any(Number) }) },
    ];
    const spaces = await readSpaces('--data', data);
    expect(spaces).toMatchObject(expected);
    const operator = ['--operator', url, '--operator-token-file', operatorTokenFile(data)];
    expect(await readSpaces(...operator)).toEqual(spaces);
    // Killed: its socket stays, and nobody answers it.
    await server.end('SIGKILL');
    expect(lstatSync(socket).isSocket()).toBe(true);
    expect(await readSpaces('--data', data)).toEqual(spaces);
    const again = await start(data);
    expect(await readSpaces('--data', data)).toEqual(spaces);
    expect(await again.server.end('SIGTERM')).toBe(0);
    expect(lstatSync(socket, { throwIfNoEntry: false })).toBeUndefined();
    expect(await readSpaces('--data', data)).toEqual(spaces);
  },
  TEST_MS_MAX,
);

test(
  'commands on Apps answer over the API as they do on the folder',
  async () => {
    const data = newData();
    const { server, url } = await start(data, '--dev');
    const app = async (...args: readonly string[]) => runHoldfast(['app', ...args]);
    const file = operatorTokenFile(data);
    const operator = ['--operator', url, '--operator-token-file', file];
    const listed = await app('list', '--json', ...operator);
    expect(JSON.parse(listed.stdout)).toEqual(
      JSON.parse((await app('list', '--json', '--data', data)).stdout),
    );
    for (const [verb, status] of [
      ['suspend', 'suspended'],
      ['resume', 'active'],
    ] as const) {
      expect((await app(verb, 'demo', ...operator)).exitCode).toBe(0);
      const { stdout } = await app('list', '--json', '--data', data);
      expect(JSON.parse(stdout)).toMatchObject([{ appId: 'demo', status }]);
    }
    const byVariable = await runHoldfast(['app', 'remove', 'demo', '--json'], {
      environment: { HOLDFAST_OPERATOR_URL: url, HOLDFAST_OPERATOR_TOKEN_FILE: file },
    });
    expect(JSON.parse(byVariable.stdout)).toEqual({ appId: 'demo', removed: true });
    const unknown = await app('suspend', 'demo', ...operator);
    expect(unknown).toMatchObject({ exitCode: 1, stdout: '' });
    expect(unknown.stderr).toContain('there is no App "demo"');
    const wrongDoor = await app('list', '--operator', server.url);
    expect(wrongDoor.exitCode).toBe(1);
    expect((await app('list', '--operator', url, '--data', data)).exitCode).toBe(2);
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'a folder with a long path has a channel too',
  async () => {
    const deep = join(folder.path, 'd'.repeat(90), 'e'.repeat(90));
    mkdirSync(deep, { recursive: true });
    const { server } = await start(join(deep, 'data'));
    expect(await readSpaces('--data', join(deep, 'data'))).toEqual([]);
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'a path that is no socket of the owner is neither served on nor asked',
  async () => {
    const data = newData();
    const { server } = await start(data);
    await server.end('SIGTERM');
    const elsewhere = join(folder.path, 'elsewhere.sock');
    symlinkSync(elsewhere, join(data, 'operator.sock'));
    const refused = await tryStartServer({ data });
    expect(refused).toMatchObject({ exitCode: 1 });
    expect('stderr' in refused && refused.stderr).toContain('operator.sock');
    const asked = await runHoldfast(['space', 'list', '--data', data]);
    expect(asked.exitCode).toBe(1);
    expect(asked.stderr).toContain('operator.sock');
    rmSync(join(data, 'operator.sock'));
  },
  TEST_MS_MAX,
);

test(
  'a folder that is not there is not made',
  async () => {
    const data = newData();
    for (const args of [
      ['space', 'list'],
      ['space', 'gc', 'a', 's'],
    ]) {
      const { exitCode, stderr } = await runHoldfast([...args, '--data', data]);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(data);
      expect(lstatSync(data, { throwIfNoEntry: false })).toBeUndefined();
    }
    // Nor is anything made in one that holds no deployment.
    mkdirSync(data);
    chmodSync(data, 0o700);
    expect((await runHoldfast(['space', 'list', '--data', data])).exitCode).toBe(1);
    expect(lstatSync(join(data, 'lock.db'), { throwIfNoEntry: false })).toBeUndefined();
  },
  TEST_MS_MAX,
);

test(
  'commands succeed while servers start and stop',
  async () => {
    const data = newData();
    await (await start(data)).server.end('SIGTERM');
    let isOver = false;
    const commands = Array.from({ length: 2 }, async () => {
      let done = 0;
      while (!isOver) {
        expect(await readSpaces('--data', data)).toEqual([]);
        done += 1;
      }
      return done;
    });
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
      // A command that holds the folder for a moment keeps a server from starting, which says so.
      let server: ServerProcess | undefined;
      await until(async () => {
        const outcome = await tryStartServer({ data });
        if ('url' in outcome) server = outcome;
        else expect(outcome.stderr).toContain('in use');
        return server !== undefined;
      });
      servers.push(server as ServerProcess);
      await server?.end(signal);
    }
    isOver = true;
    for (const done of await Promise.all(commands)) expect(done).toBeGreaterThan(0);
  },
  TEST_MS_MAX,
);

test(
  'the listener comes back at its address when the worker that had it dies',
  async () => {
    const { server, url } = await start(newData(), '--workers', '2');
    const scrape = async (): Promise<string> =>
      fetch(`${url}/metrics`).then(
        (response) => response.text(),
        () => '',
      );
    await until(async () => (await scrape()).includes('\nholdfast_workers 2\n'));
    const workers = Bun.spawnSync(['pgrep', '-P', String(server.pid)])
      .stdout.toString()
      .trim()
      .split('\n');
    // The first worker began first.
    process.kill(Math.min(...workers.map(Number)), 'SIGKILL');
    await until(async () => /^holdfast_worker_deaths_total 1$/m.test(await scrape()));
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'a schema that this build cannot use takes the server out of service until it is usable again',
  async () => {
    const data = newData();
    const { server, url } = await start(data);
    expect(await (await fetch(`${url}/readyz/schema`)).text()).toBe('ok');
    using database = new Database(join(data, 'holdfast.db'));
    database.run('PRAGMA busy_timeout = 5000');
    const { user_version: version } = database.query('PRAGMA user_version').get() as { user_version: number };
    database.run('PRAGMA user_version = 9999');
    database.run('PRAGMA application_id = 0');
    database.run('UPDATE holdfast_schema SET min_compatible_version = 9999');
    await until(async () => (await fetch(`${url}/readyz?exclude=engines`)).status === 503);
    expect(await (await fetch(`${url}/readyz`)).text()).toContain(
      `[-]schema failed: ${join(data, 'holdfast.db')} has schema version 9999, this build knows`,
    );
    database.run(`PRAGMA user_version = ${version}`);
    database.run('UPDATE holdfast_schema SET min_compatible_version = 1');
    await until(async () => (await fetch(`${url}/readyz`)).status === 200);
    expect(await server.end('SIGTERM')).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'while a server drains, its probe says so',
  async () => {
    const data = newData();
    const { server, url } = await start(data, '--dev');
    const headers = operatorHeaders(data);
    const token = await readPrinted(server, /^export HOLDFAST_TOKEN=(.*)\n/m);
    // A body that does not end keeps the server draining.
    const body = Promise.withResolvers<void>();
    const slow = fetch(`${server.url}/v1/apps/demo/spaces/home/cas/gc`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode('{"maxNodes":'));
          await body.promise;
          controller.enqueue(new TextEncoder().encode('1}'));
          controller.close();
        },
      }),
    });
    await until(async () =>
      /^holdfast_requests_in_flight [1-9]/m.test(await (await fetch(`${url}/metrics`)).text()),
    );
    const ended = server.end('SIGTERM');
    await until(async () => (await fetch(`${url}/readyz`)).status === 503);
    expect(await (await fetch(`${url}/readyz`)).text()).toContain('[-]draining failed: the server is ending');
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    expect((await fetch(`${url}/operator/v1/status`, { headers })).status).toBe(503);
    body.resolve();
    expect((await slow).status).toBe(200);
    expect(await ended).toBe(0);
  },
  TEST_MS_MAX,
);
