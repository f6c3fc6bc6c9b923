/** `holdfast serve` on PostgreSQL and S3: its needs, the files that it leaves, and starts that fail. */
import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines } from './support/cluster.ts';
import type { CommandResult } from './support/command-result.ts';
import { makeIssuer } from './support/issuer.ts';
import { openPostgres } from './support/postgres-server.ts';
import {
  addApp,
  findDescendants,
  runHoldfast,
  type ServerOptions,
  type ServerProcess,
  startServer,
  tryStartServer,
} from './support/server-process.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { makeTempFolder } from './support/temp-folder.ts';

/** The data folder of a server that keeps its rows in a database. */
const OF_DEV = ['.gitignore', '.holdfastignore', 'dev-key.jwk', 'operator-token'];
const TEST_MS_MAX = 300_000;
const KNOWN_MS_MAX = 180_000;
const AGREEING_ANSWERS = 16;

const engines = await openEngines();
const databases = await openPostgres();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(async () => {
  await databases.close();
  await engines.close();
});

const contentUrl = formatContentUrl(engines.bucket);
const password = new URL(engines.metadataUrl).password;
const { secretAccessKey } = engines.bucket;

interface Place {
  readonly folder: string;
  /** not made by the test */
  readonly data: string;
  /** of the servers: their temporary folder is this test's, their engines come by variables */
  readonly environment: Record<string, string>;
}

function makePlace(urls: { readonly metadata?: string; readonly content?: string } = {}): Place {
  const temporary = makeTempFolder('scaleout');
  cleanups.push(() => temporary.remove());
  const folder = temporary.path;
  mkdirSync(join(folder, 'tmp'));
  return {
    folder,
    data: join(folder, 'data'),
    environment: {
      ...makeS3Environment(engines.bucket),
      TMPDIR: join(folder, 'tmp'),
      HOLDFAST_METADATA: urls.metadata ?? engines.metadataUrl,
      HOLDFAST_CONTENT: urls.content ?? contentUrl,
    },
  };
}

async function start(place: Place, ...args: readonly string[]): Promise<ServerProcess> {
  return await startWith({ ...place, arguments: args });
}

async function startWith(options: ServerOptions): Promise<ServerProcess> {
  const server = await startServer(options);
  cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
  return server;
}

/** One line on stderr besides the log, exit 1 or 2, nothing on stdout, no secret anywhere. */
async function expectFailure(place: Place, exitCode: number, message: RegExp): Promise<string[]> {
  const { data, environment } = place;
  const outcome = (await tryStartServer({ data, environment })) as CommandResult;
  expect({ exitCode: outcome.exitCode, stdout: outcome.stdout }).toEqual({ exitCode, stdout: '' });
  const lines = outcome.stderr.trim().split('\n');
  expect(lines.at(-1)).toMatch(message);
  expect(lines.at(-1)).toStartWith('holdfast: ');
  for (const secret of [password, secretAccessKey, 'hunter2']) expect(outcome.stderr).not.toContain(secret);
  const logged = lines.slice(0, -1);
  for (const line of logged) expect(() => JSON.parse(line)).not.toThrow();
  // Told by each start that has come so far, whatever fails then.
  return logged.filter((line) => !line.includes('data_checksums'));
}

async function makeClient(server: ServerProcess, place: Place, appId: string): Promise<SpaceClient> {
  const issuer = makeIssuer(`https://${appId}.test`);
  await addApp(join(place.folder, 'data'), appId, issuer, engines.metadataUrl);
  const client = makeSpaceClient(server.url, appId, 'space', issuer.token('space'));
  // Whichever worker a connection goes to.
  const headers = { authorization: `Bearer ${issuer.token('space')}` };
  await untilKnown(async () => {
    const { status } = await fetch(`${client.spaceUrl}/cas/usage`, { headers, keepalive: false });
    return status === 200;
  });
  return client;
}

/** Resolves once many answers in a row are as expected. */
async function untilKnown(ask: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + KNOWN_MS_MAX;
  for (let agreeing = 0; agreeing < AGREEING_ANSWERS; agreeing += 1) {
    if (await ask()) continue;
    if (Date.now() > deadline) throw new Error(`the change is not known after ${KNOWN_MS_MAX} ms`);
    agreeing = -1;
    await Bun.sleep(50);
  }
}

describe('servers on PostgreSQL and S3', () => {
  test(
    'keep nothing on the machine, and pass no secret to each other in arguments',
    async () => {
      const place = makePlace();
      const server = await start(place, '--workers', '2');
      const workers = findDescendants(server.pid);
      expect(workers).toHaveLength(2);
      for (const pid of workers) {
        const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        expect(commandLine).toContain('serve-worker');
        for (const secret of [password, secretAccessKey, 'postgres:'])
          expect(commandLine).not.toContain(secret);
      }
      expect(
        readdirSync(join(place.folder, 'tmp')).filter((name) => name.startsWith('holdfast-')),
      ).toHaveLength(2);
      const client = await makeClient(server, place, 'nothing-kept');
      expect((await client.store(makeNode('kept elsewhere'))).json.state).toBe('ready');
      expect(await server.end('SIGTERM')).toBe(0);
      expect(existsSync(place.data)).toBe(false);
      expect(readdirSync(join(place.folder, 'tmp'))).toEqual([]);
      for (const secret of [password, secretAccessKey]) expect(server.log()).not.toContain(secret);
    },
    TEST_MS_MAX,
  );

  test(
    'share the signing secret: a cursor of one is good at another, even one started later',
    async () => {
      const place = makePlace();
      const [first, second] = await Promise.all([start(place), start(place)]);
      const client = await makeClient(first, place, 'signed');
      const nodes = [makeNode('1'), makeNode('2')];
      for (const node of nodes) await client.store(node);
      await client.commit('r', Object.fromEntries(nodes.map(({ hash }) => [hash, 1])));
      const { nextCursor } = (await client.roots('?limit=1')).json;
      const page = async (server: ServerProcess) => {
        const url = `${client.spaceUrl}/root-refs?limit=1&cursor=${nextCursor}`.replace(
          first.url,
          server.url,
        );
        const headers = { authorization: `Bearer ${makeToken()}` };
        return fetch(url, { headers });
      };
      const issuer = makeIssuer('https://signed.test');
      const makeToken = (): string => issuer.token('space');
      const keySet = join(place.folder, 'other.json');
      issuer.writeKeySet(keySet);
      const replace = ['app', 'add', 'signed', '--replace', '--issuer', issuer.issuer, '--audience'];
      const replaced = await runHoldfast(
        [...replace, issuer.audience, '--jwks-file', keySet, '--metadata', engines.metadataUrl],
        {},
      );
      expect(replaced.exitCode).toBe(0);
      await untilKnown(async () => (await page(second)).status === 200);
      const third = await start(place);
      for (const server of [second, third]) {
        expect((await (await page(server)).json()).items).toEqual([
          { hash: nodes.map(({ hash }) => hash).sort()[1], refCount: 1 },
        ]);
      }
    },
    TEST_MS_MAX,
  );

  test(
    '--dev keeps its key in the data folder and its App in the database',
    async () => {
      const place = makePlace();
      const server = await start(place, '--dev');
      expect(readdirSync(place.data).toSorted()).toEqual(OF_DEV);
      const listed = await runHoldfast(['app', 'list', '--json'], { environment: place.environment });
      expect(JSON.parse(listed.stdout).map(({ appId }: { appId: string }) => appId)).toContain('demo');
      expect(await server.end('SIGTERM')).toBe(0);
      expect(readdirSync(place.data).toSorted()).toEqual(OF_DEV);
    },
    TEST_MS_MAX,
  );

  test(
    'a data folder with bytes in S3 remembers that, and is held by one server',
    async () => {
      const place = makePlace({ metadata: '', content: `${contentUrl.replace('?', '/folder?')}` });
      const first = await start(place, '--dev');
      await expectFailure(place, 1, /in use by another holdfast server/);
      expect(await first.end('SIGTERM')).toBe(0);
      const again = await start(place);
      expect(await again.end('SIGTERM')).toBe(0);
      const withoutContent = { ...place, environment: { ...place.environment, HOLDFAST_CONTENT: '' } };
      await expectFailure(withoutContent, 1, /are in another store: give its --content/);
      const other = { ...makePlace({ metadata: '', content: place.environment.HOLDFAST_CONTENT as string }) };
      await expectFailure(other, 1, /belongs to other rows/);
      const embedded = makePlace({ metadata: '', content: '' });
      expect(await (await start(embedded)).end('SIGTERM')).toBe(0);
      const moved = { ...embedded, environment: { ...embedded.environment, HOLDFAST_CONTENT: contentUrl } };
      await expectFailure(moved, 1, /are in that folder: leave --content out/);
    },
    TEST_MS_MAX,
  );
});

describe('a start that fails', () => {
  const withUrl = (url: string, change: (parsed: URL) => void): string => {
    const parsed = new URL(url);
    change(parsed);
    return parsed.href;
  };

  test(
    'at once, for what only a person can change',
    async () => {
      const wrongPassword = withUrl(engines.metadataUrl, (url) => {
        url.password = 'hunter2';
      });
      expect(
        await expectFailure(makePlace({ metadata: wrongPassword }), 1, /PostgreSQL refuses the password/),
      ).toEqual([]);
      const noDatabase = withUrl(engines.metadataUrl, (url) => {
        url.pathname = '/no-such-database';
      });
      expect(
        await expectFailure(makePlace({ metadata: noDatabase }), 1, /does not exist: create it/),
      ).toEqual([]);
      const noBucket = contentUrl.replace(engines.bucket.name, 'no-such-bucket');
      expect(
        await expectFailure(makePlace({ content: noBucket }), 1, /bucket no-such-bucket .*create it/),
      ).toEqual([]);
      const wrongKey = makePlace();
      wrongKey.environment.AWS_SECRET_ACCESS_KEY = 'hunter2';
      expect(await expectFailure(wrongKey, 1, /SignatureDoesNotMatch.*AWS_SECRET_ACCESS_KEY/)).toEqual([]);
      const noCertificates = `${engines.metadataUrl}?sslmode=verify-full&sslrootcert=/no/such.pem`;
      await expectFailure(makePlace({ metadata: noCertificates }), 1, /sslrootcert/);
    },
    TEST_MS_MAX,
  );

  test(
    'for rows of a newer version, and for a bucket of other rows',
    async () => {
      const fresh = await databases.createDatabase();
      await expectFailure(makePlace({ metadata: fresh }), 1, /belongs to other rows/);
      const sql = new SQL(fresh, { max: 1 });
      await sql`UPDATE holdfast_schema SET version = 1000, min_compatible_version = 1000, seal = NULL`;
      await sql.close();
      await expectFailure(makePlace({ metadata: fresh }), 1, /schema version 1000.*newer Holdfast/);
    },
    TEST_MS_MAX,
  );

  test(
    'after a few logged tries, while PostgreSQL or S3 is away',
    async () => {
      const awayDatabase = withUrl(engines.metadataUrl, (url) => {
        url.port = '1';
      });
      const noTls = makePlace({ metadata: `${engines.metadataUrl}?sslmode=require` });
      const awayStore = contentUrl.replace(/%3A\d+/, '%3A1');
      expect(awayStore).not.toBe(contentUrl);
      const [rows, bytes, encrypted] = await Promise.all([
        expectFailure(
          makePlace({ metadata: awayDatabase }),
          1,
          /127\.0\.0\.1:1\/.*ECONNREFUSED.*PostgreSQL runs/,
        ),
        expectFailure(makePlace({ content: awayStore }), 1, /http:\/\/127\.0\.0\.1:1.*check that it runs/),
        expectFailure(noTls, 1, /perhaps it has no TLS/),
      ]);
      for (const [logged, name] of [
        [rows, 'PostgreSQL (127.0.0.1:1)'],
        [bytes, 'S3 (http://127.0.0.1:1)'],
        [encrypted, `PostgreSQL (127.0.0.1:${new URL(engines.metadataUrl).port})`],
      ] as const) {
        const tries = logged.map((line) => JSON.parse(line)).filter(({ engine }) => engine === name);
        expect(tries.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5]);
      }
    },
    TEST_MS_MAX,
  );

  test(
    'does not happen if they come while it waits',
    async () => {
      const { port } = new URL(engines.metadataUrl);
      const proxy = await startTcpProxy({ port: Number(port) });
      cleanups.push(() => proxy.close());
      proxy.setMode({ kind: 'reset' });
      const metadata = withUrl(engines.metadataUrl, (url) => {
        url.port = String(proxy.port);
      });
      let failures = 0;
      const onLog = (log: string): void => {
        failures = log.split('an engine cannot be used yet; trying again').length - 1;
        if (failures >= 2) proxy.setMode({ kind: 'pass' });
      };
      const server = await startWith({ ...makePlace({ metadata }), onLog });
      expect(failures).toBeGreaterThanOrEqual(2);
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
    },
    TEST_MS_MAX,
  );
});
