/** Commands on Apps and the secret, beside real servers: the server that holds the folder does the work, and writes it down. */
import { afterAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeIssuer } from './support/issuer.ts';
import { operatorTokenFile } from './support/operator-token.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { readPrinted, runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('operator-channel');
const servers: RunningServer[] = [];
afterAll(async () => {
  await Promise.all(servers.map((each) => each.remove()));
  folder.remove();
});

const keys = join(folder.path, 'jwks.json');
makeIssuer().writeKeySet(keys);

async function start(purpose: string, ...more: string[]): Promise<RunningServer> {
  const running = await startFreshServer(purpose, { arguments: more });
  servers.push(running);
  return running;
}

async function print(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await runHoldfast(args);
  expect({ args, exitCode, stderr }).toEqual({ args, exitCode: 0, stderr: '' });
  return stdout;
}

const addArguments = (name: string): string[] => [
  ...['app', 'add', name, '--issuer', `https://${name}.test`, '--audience', 'a', '--jwks-file', keys],
];

const listApps = async (...at: string[]): Promise<{ appId: string }[]> =>
  JSON.parse(await print('app', 'list', '--json', ...at));

test(
  'every change by --data or --operator has a line in the audit log, and reads have none',
  async () => {
    const log = join(folder.path, 'audit.log');
    const running = await start(
      ...(['audited-apps', '--audit-log', log, '--operator-listen', '127.0.0.1:0'] as const),
    );
    const noted = (): [string, string | undefined, number][] =>
      readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
        .map(({ operation, app, status }) => [operation, app, status]);
    const data = ['--data', running.data];
    await print(...addArguments('one'), ...data);
    await print('app', 'set', 'one', '--max-nodes', '7', ...data);
    await print('app', 'revoke', 'one', '--sub', 'eve', ...data);
    await print('app', 'suspend', 'one', ...data);
    await print('app', 'resume', 'one', ...data);
    expect(await listApps(...data)).toMatchObject([
      { appId: APP },
      { appId: 'one', quotas: { maxNodes: 7 } },
    ]);
    expect((await runHoldfast([...addArguments('one'), ...data])).stderr).toContain('--replace');
    await print('app', 'remove', 'one', ...data);
    await print('secret', 'rotate', ...data);
    const expected: [string, string | undefined, number][] = [
      ['operator.apps.add', 'one', 200],
      ['operator.apps.set', 'one', 200],
      ['operator.apps.revoke', 'one', 200],
      ['operator.apps.suspend', 'one', 200],
      ['operator.apps.resume', 'one', 200],
      ['operator.apps.add', 'one', 409],
      ['operator.apps.remove', 'one', 200],
      ['operator.secret.rotate', undefined, 200],
    ];
    await until(() => noted().length >= expected.length);
    expect(noted().toSorted()).toEqual(expected.toSorted());

    const url = await readPrinted(running.server, /^operators: (\S+)\n/m);
    const operator = ['--operator', url, '--operator-token-file', operatorTokenFile(running.data)];
    expect(await listApps(...operator)).toMatchObject([{ appId: APP }]);
    const again = await runHoldfast(['secret', 'rotate', ...operator]);
    expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining('a rotation is under way')]);
    await print('app', 'suspend', APP, ...operator);
    await until(() => noted().some(([operation, app]) => operation.endsWith('suspend') && app === APP));

    // The socket of a server that was killed is still there.
    await running.server.end('SIGKILL');
    const count = noted().length;
    await print('app', 'resume', APP, ...data);
    expect(await listApps(...data)).toMatchObject([{ appId: APP, status: 'active' }]);
    expect(noted()).toHaveLength(count);
  },
  TEST_MS_MAX,
);

test(
  'while servers start and stop, a change is made once or the command says that it does not know',
  async () => {
    const running = await start('apps-come-and-go');
    const data = ['--data', running.data];
    const done = new Set([APP]);
    const unknown = new Set<string>();
    let isOver = false;
    const commands = ['x', 'y'].map(async (prefix) => {
      for (let at = 0; !isOver; at++) {
        const name = `${prefix}${at}`;
        const { exitCode, stderr } = await runHoldfast([...addArguments(name), ...data]);
        if (exitCode === 0) done.add(name);
        else {
          expect(stderr).toContain('whether it was done is not known');
          unknown.add(name);
        }
      }
    });
    let server: ServerProcess = running.server;
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
      await server.end(signal);
      // A command never holds the folder against a server.
      server = await startServer({ data: running.data });
      running.server = server;
      const before = done.size;
      await until(() => done.size > before);
    }
    isOver = true;
    await Promise.all(commands);
    const listed = (await listApps(...data)).map(({ appId }) => appId);
    expect(listed.filter((name) => !unknown.has(name)).toSorted()).toEqual([...done].toSorted());
  },
  TEST_MS_MAX,
);
