/** Operators ask several servers over one database and bucket, while the connection of one server to the database is cut. */
import { afterAll, expect, test } from 'bun:test';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines } from './support/cluster.ts';
import { makeIssuer } from './support/issuer.ts';
import { operatorHeaders, operatorTokenFile } from './support/operator-token.ts';
import { addApp, runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const folder = makeTempFolder('operator-engines');
const engines = await openEngines();
const database = new URL(engines.metadataUrl);
const proxy = await startTcpProxy({ host: database.hostname, port: Number(database.port) });
/** The servers keep nothing there but the token of their operators. */
const DATA = `${folder.path}/data`;
const servers: ServerProcess[] = [];
afterAll(async () => {
  for (const server of servers) if (server.isRunning()) await server.end('SIGKILL');
  await proxy.close();
  await engines.close();
  folder.remove();
});

const environment = {
  ...makeS3Environment(engines.bucket),
  HOLDFAST_METADATA: engines.metadataUrl,
  HOLDFAST_CONTENT: formatContentUrl(engines.bucket),
};

async function start(metadata: string) {
  const server = await startServer({
    data: DATA,
    environment: { ...environment, HOLDFAST_METADATA: metadata },
    arguments: ['--operator-listen', '127.0.0.1:0'],
  });
  servers.push(server);
  await until(() => /^operators: .*\n/m.test(server.output()));
  return { server, url: /^operators: (.*)$/m.exec(server.output())?.[1] as string };
}

test(
  'commands work on the engines beside servers, and a server without its engine is not ready unless engines are excluded',
  async () => {
    const proxied = new URL(engines.metadataUrl);
    proxied.hostname = '127.0.0.1';
    proxied.port = String(proxy.port);
    const [direct, cut] = [await start(engines.metadataUrl), await start(proxied.href)];
    const issuer = makeIssuer('https://operated.test');
    await addApp(DATA, 'operated', issuer, engines.metadataUrl);
    const client = makeSpaceClient(direct.server.url, 'operated', 'space', issuer.token('space'));
    await client.store(makeNode('kept'), 3_600_000);
    const list = async (...args: readonly string[]) => {
      const { exitCode, stdout, stderr } = await runHoldfast(['space', 'list', '--json', ...args], {
        environment,
      });
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
      return JSON.parse(stdout);
    };
    const listed = await list();
    expect(listed).toMatchObject([{ app: 'operated', space: 'space', usage: { nodeCount: 1 } }]);
    for (const { url } of [direct, cut]) {
      const operator = ['--operator', url, '--operator-token-file', operatorTokenFile(DATA)];
      expect(await list(...operator)).toEqual(listed);
    }
    const collected = await runHoldfast(['space', 'gc', 'operated', 'space', '--json'], { environment });
    expect(JSON.parse(collected.stdout)).toEqual({ examined: 0, deleted: 0, reclaimedContentBytes: 0 });
    expect(collected.stderr).toBe('');
    const place = ['--app', 'operated', '--space', 'spaec'];
    for (const misspelled of [
      ['space', 'gc', 'operated', 'spaec'],
      ['gc', '--plan', ...place],
    ]) {
      const { exitCode, stderr } = await runHoldfast(misspelled, { environment });
      expect({ exitCode, stderr }).toEqual({
        exitCode: 0,
        stderr: 'App "operated" has no Space "spaec": holdfast space list shows all that there are\n',
      });
    }

    const probe = async (url: string, path: string) => (await fetch(`${url}${path}`)).status;
    expect(await probe(cut.url, '/readyz')).toBe(200);
    proxy.setMode({ kind: 'reset' });
    await until(async () => (await probe(cut.url, '/readyz')) === 503);
    expect(await (await fetch(`${cut.url}/readyz?verbose`)).text()).toContain('[-]engines failed: ');
    expect(await probe(cut.url, '/readyz?exclude=engines')).toBe(200);
    const readStatus = async () =>
      (await fetch(`${cut.url}/operator/v1/status`, { headers: operatorHeaders(DATA) })).json();
    expect(await readStatus()).toMatchObject({
      server: { isReady: false },
      apps: null,
      messages: [{ severity: 'error', name: 'engines' }],
    });
    expect(await probe(cut.url, '/livez')).toBe(200);
    expect(await probe(direct.url, '/readyz')).toBe(200);
    proxy.setMode({ kind: 'pass' });
    await until(async () => (await probe(cut.url, '/readyz')) === 200);
    await until(async () => (await readStatus()).apps?.active === 1);
  },
  TEST_MS_MAX,
);
