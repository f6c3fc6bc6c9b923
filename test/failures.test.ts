/** Faults of an operator's machine: each gives one clear line and loses nothing, and the server works on afterwards. */
import { Database } from 'bun:sqlite';
import { afterEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import type { CommandResult } from './support/command-result.ts';
import { databasePath } from './support/embedded-files.ts';
import { recount } from './support/embedded-recount.ts';
import { type Issuer, makeIssuer } from './support/issuer.ts';
import { openConnection } from './support/raw-connection.ts';
import {
  addApp,
  runHoldfast,
  type ServerOptions,
  type ServerProcess,
  startServer,
  tryStartServer,
} from './support/server-process.ts';
import { mountSmallDisk } from './support/small-disk.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const APP = 'app';
const SPACE = 'space';
/** A server has recovered within this time. */
const WELL_MS_MAX = 180_000;
const MIB = 1024 * 1024;
const LARGE_BYTES = 100_000;

/** Undone after each test, last first: servers ended, disks unmounted, folders removed. */
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function makeDataFolder(): string {
  const folder = makeTempFolder('failures');
  cleanups.push(() => folder.remove());
  const data = join(folder.path, 'data');
  mkdirSync(data);
  return data;
}

async function start(options: ServerOptions): Promise<ServerProcess> {
  const server = await startServer(options);
  cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
  return server;
}

async function makeApp(data: string): Promise<Issuer> {
  const issuer = makeIssuer();
  await addApp(data, APP, issuer);
  return issuer;
}

function connect(server: ServerProcess, issuer: Issuer): SpaceClient {
  return makeSpaceClient(server.url, APP, SPACE, issuer.token(SPACE));
}

/** Exit code 1, nothing on stdout, one line on stderr that names the matter. */
function expectOneClearLine(outcome: ServerProcess | CommandResult, matter: RegExp): void {
  if (!('exitCode' in outcome)) throw new Error('the server started although it should not have');
  const lines = outcome.stderr.trim().split('\n');
  expect({ exitCode: outcome.exitCode, stdout: outcome.stdout, lines: lines.length, stderr: lines }).toEqual({
    exitCode: 1,
    stdout: '',
    lines: 1,
    stderr: [expect.stringMatching(/^holdfast: /)],
  });
  expect(outcome.stderr).toMatch(matter);
  expect(outcome.stderr).not.toMatch(/ {4}at |unexpected/);
}

async function expectReadable(client: SpaceClient, nodes: readonly CanonicalNode[]): Promise<void> {
  for (const node of nodes) {
    const response = await client.content(node.hash);
    expect(response.status).toBe(200);
    expect(Buffer.compare(await response.bytes(), node.content)).toBe(0);
  }
}

describe('a server that cannot start says why', () => {
  test('the port is in use', async () => {
    const first = await start({ data: makeDataFolder() });
    const outcome = await tryStartServer({
      data: makeDataFolder(),
      arguments: ['--listen', `127.0.0.1:${first.port}`],
    });
    expectOneClearLine(outcome, new RegExp(`${first.port}.*in use`));
    expect((await fetch(`${first.url}/health`)).status).toBe(200);
  });

  test('the data folder is in use', async () => {
    const data = makeDataFolder();
    const first = await start({ data });
    expectOneClearLine(await tryStartServer({ data }), /in use/);
    expect((await fetch(`${first.url}/health`)).status).toBe(200);
  });

  test('the data folder was written by a newer version, and is left as it is', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const node = makeNode('kept');
    const first = await start({ data });
    await connect(first, issuer).store(node);
    await first.end('SIGTERM');
    setVersion(data, (version) => version + 1);
    expectOneClearLine(await tryStartServer({ data }), /newer/);
    setVersion(data, (version) => version - 1);
    await expectReadable(connect(await start({ data }), issuer), [node]);
  });

  test('the secret cannot be read', async () => {
    const data = makeDataFolder();
    const first = await start({ data });
    await first.end('SIGTERM');
    const secret = join(data, 'secret.key');
    const kept = readFileSync(secret);
    rmSync(secret);
    mkdirSync(secret, { mode: 0o700 });
    expectOneClearLine(await tryStartServer({ data }), /secret\.key/);
    rmSync(secret, { recursive: true });
    writeFileSync(secret, kept.subarray(1), { mode: 0o600 });
    expectOneClearLine(await tryStartServer({ data }), /secret\.key/);
    writeFileSync(secret, kept);
    await start({ data });
  });

  test('the data folder is a file, or below a file', async () => {
    const data = makeDataFolder();
    const file = join(data, 'file');
    writeFileSync(file, '');
    expectOneClearLine(await tryStartServer({ data: file }), /not a folder/);
    expectOneClearLine(await tryStartServer({ data: join(file, 'below') }), /not a folder/);
  });

  test('the content folder is missing, and is not made anew', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const node = makeNode(seededBytes(LARGE_BYTES, 1));
    const first = await start({ data });
    await connect(first, issuer).store(node);
    await first.end('SIGTERM');
    renameSync(join(data, 'content'), join(data, 'away'));
    expectOneClearLine(await tryStartServer({ data }), /content/);
    expect(existsSync(join(data, 'content'))).toBe(false);
    renameSync(join(data, 'away'), join(data, 'content'));
    await expectReadable(connect(await start({ data }), issuer), [node]);
  });

  test('the database is no database', async () => {
    const data = makeDataFolder();
    writeFileSync(databasePath(data), 'this is no database'.repeat(500));
    expectOneClearLine(await tryStartServer({ data }), /database .* is damaged/);
  });

  test('the disk is read-only, and full', async () => {
    const disk = mountSmallDisk(16);
    cleanups.push(() => disk.remove());
    const data = join(disk.path, 'data');
    mkdirSync(data);
    disk.setReadOnly(true);
    expectOneClearLine(await tryStartServer({ data }), /read-only|cannot be written/);
    disk.setReadOnly(false);
    disk.fill(0);
    expectOneClearLine(await tryStartServer({ data }), /full/);
    disk.empty();
    await start({ data });
  });

  test('an option makes no sense', async () => {
    const data = makeDataFolder();
    const outcome = await tryStartServer({ data, arguments: ['--upload-ttl', 'soon'] });
    expect('exitCode' in outcome ? outcome.exitCode : 'started').toBe(2);
  });

  test('files of the command line tools', async () => {
    const data = makeDataFolder();
    const none = join(data, 'none');
    const app = ['app', 'add', 'x', '--issuer', 'https://x.test', '--audience', 'x', '--data', data];
    expectOneClearLine(await runHoldfast([...app, '--jwks-file', none]), /none/);
    expectOneClearLine(await runHoldfast([...app, '--jwks-file', data]), /data/);
    const token = [
      'token',
      '--issuer',
      'x',
      '--audience',
      'x',
      '--space',
      's',
      '--permission',
      'cas:nodes:read',
    ];
    expectOneClearLine(await runHoldfast([...token, '--key', none]), /none/);
  });
});

function setVersion(data: string, change: (version: number) => number): void {
  const database = new Database(databasePath(data));
  const row = database.query<{ user_version: number }, []>('PRAGMA user_version').get();
  const version = change(row?.user_version ?? 0);
  database.run(`PRAGMA user_version = ${version}`);
  database.run('PRAGMA application_id = 0');
  database.run('UPDATE holdfast_schema SET min_compatible_version = ?1', [version]);
  database.close();
}

describe('a server that runs goes on', () => {
  test('the disk fills up: refused with 503, nothing acknowledged is lost, and space that returns is used', async () => {
    const disk = mountSmallDisk(24);
    cleanups.push(() => disk.remove());
    const data = join(disk.path, 'data');
    mkdirSync(data);
    const issuer = await makeApp(data);
    const server = await start({ data, arguments: ['--min-free', '0'] });
    const client = connect(server, issuer);
    const stored = [makeNode('small'), makeNode(seededBytes(LARGE_BYTES, 1))];
    for (const node of stored) await client.store(node);
    disk.fill(MIB / 2);
    const refused = await storeUntilRefused(client, stored);
    disk.fill(0);
    const refusals: string[] = [];
    for (let seed = 0; seed < 40; seed += 1) {
      const { status } = await client.lease(makeNode(`after ${seed}`).hash);
      expect([200, 503]).toContain(status);
      const commit = await client.commit(`full-${seed}`, { [stored[0]?.hash as string]: 1 });
      expect([200, 503]).toContain(commit.status);
      if (commit.status === 503) refusals.push(commit.json.message);
    }
    expect(refusals.length).toBeGreaterThan(0);
    for (const message of refusals) expect(message).toStartWith("no space left on the server's disk");
    // Repeated lines are counted: there are a few kinds of failure, and none has a line for each request.
    expect(server.log().split('a request failed').length).toBeLessThan(refusals.length / 2);
    await expectReadable(client, stored);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    expect(server.isRunning()).toBe(true);
    disk.empty();
    await client.store(refused);
    await expectReadable(client, [...stored, refused]);
    expect(await server.end('SIGTERM')).toBe(0);
    expect(recount(data).problems).toEqual([]);
    await expectReadable(connect(await start({ data }), issuer), [...stored, refused]);
  }, 300_000);

  test('descriptors run out: requests are refused, and nothing is taken for rot', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const server = await start({ data, wrapper: ['prlimit', '--nofile=80:80'] });
    const client = connect(server, issuer);
    const stored = Array.from({ length: 5 }, (_, seed) => makeNode(seededBytes(LARGE_BYTES, seed)));
    for (const node of stored) await client.store(node);
    const idle = await Promise.all(Array.from({ length: 120 }, () => openConnection(server.port)));
    const statuses = await Promise.all(
      stored.map(async ({ hash }) => {
        const answer = await Promise.race([client.content(hash).catch(() => undefined), Bun.sleep(1500)]);
        return answer?.status;
      }),
    );
    for (const status of statuses) expect([200, 429, 503, undefined]).toContain(status);
    for (const connection of idle) connection.destroy();
    await untilHealthy(server);
    // It answers before it has given back all of them.
    for (const { hash } of stored) await untilServed(client, hash);
    await expectReadable(client, stored);
    expect((await client.usage()).notReadyNodeCount).toBe(0);
    const fresh = makeNode(seededBytes(LARGE_BYTES, 77));
    await client.store(fresh);
    await expectReadable(client, [fresh]);
  }, 300_000);

  test('the content folder vanishes for a while: 503, no node counts as lost, and all is there when it returns', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const server = await start({ data });
    const client = connect(server, issuer);
    const stored = [makeNode(seededBytes(LARGE_BYTES, 1)), makeNode(seededBytes(3 * MIB, 2))];
    for (const node of stored) await client.store(node);
    renameSync(join(data, 'content'), join(data, 'away'));
    const late = makeNode(seededBytes(LARGE_BYTES, 3));
    const { json } = await client.lease(late.hash);
    for (const { hash } of stored) {
      expect((await client.content(hash)).status).toBe(503);
      expect((await client.metadata(hash)).status).toBe(200);
      expect((await client.lease(hash)).json.state).toBe('ready');
    }
    if (json.upload !== undefined) expect((await client.put(json.upload, late.bytes)).status).toBe(503);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    renameSync(join(data, 'away'), join(data, 'content'));
    await expectReadable(client, stored);
    await client.store(late);
    await expectReadable(client, [late]);
    expect((await client.usage()).notReadyNodeCount).toBe(0);
  }, 300_000);

  test('the whole data folder vanishes for a while: no crash, and everything acknowledged is there when it returns', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const server = await start({ data });
    const client = connect(server, issuer);
    const stored = [makeNode('small'), makeNode(seededBytes(LARGE_BYTES, 2))];
    for (const node of stored) await client.store(node);
    renameSync(data, `${data}-away`);
    for (const node of stored) {
      const { status } = await client.content(node.hash);
      expect([200, 503]).toContain(status);
      expect([200, 503]).toContain((await client.lease(node.hash)).status);
    }
    const late = makeNode('late');
    const { status, json } = await client.lease(late.hash);
    expect([200, 503]).toContain(status);
    const put = status === 200 ? (await client.put(json.upload, late.bytes)).status : 503;
    expect([200, 503]).toContain(put);
    renameSync(`${data}-away`, data);
    await expectReadable(client, stored);
    await server.end('SIGKILL');
    const next = connect(await start({ data }), issuer);
    await expectReadable(next, stored);
    if (put === 200) expect((await next.lease(late.hash)).json.state).toBe('ready');
    expect(recount(data).problems).toEqual([]);
  }, 300_000);

  test('a count of one Space is wrong: 503 where it is needed, by name in the log; other Spaces go on', async () => {
    const data = makeDataFolder();
    const issuer = await makeApp(data);
    const server = await start({ data });
    const client = connect(server, issuer);
    const other = makeSpaceClient(server.url, APP, 'other', issuer.token('other'));
    const child = makeNode('child');
    const parent = makeNode('parent', { refs: [child.hash] });
    for (const each of [client, other]) {
      await each.store(parent);
      await each.store(child);
    }
    const database = new Database(databasePath(data));
    database.run('UPDATE spaces SET not_ready_node_count = 0 WHERE space_id = ?', [SPACE]);
    database.close();
    const outcomes = await Promise.all(
      [client, other, client, other].map(async (each) => (await each.lease(parent.hash)).status),
    );
    expect(outcomes).toEqual([503, 200, 503, 200]);
    expect((await client.lease(child.hash)).status).toBe(200);
    const log = () => server.log().slice(0, server.log().lastIndexOf('\n'));
    await until(() => log().includes('not_ready_node_count'));
    const line = log()
      .split('\n')
      .find((each) => each.includes('not_ready_node_count'));
    expect(JSON.parse(line ?? '{}')).toMatchObject({ app: APP, space: SPACE, level: 'error' });
  });
});

/** Stores nodes of 200 kB until one is refused, and gives that one; `stored` grows by the others. */
async function storeUntilRefused(client: SpaceClient, stored: CanonicalNode[]): Promise<CanonicalNode> {
  for (let seed = 100; seed < 200; seed += 1) {
    const node = makeNode(seededBytes(2 * LARGE_BYTES, seed));
    const { status, json } = await client.lease(node.hash);
    expect([200, 503]).toContain(status);
    if (status !== 200) return node;
    const put = await client.put(json.upload, node.bytes);
    expect([200, 503]).toContain(put.status);
    if (put.status !== 200) {
      expect(((await put.json()) as { error: string }).error).toBe('SERVICE_UNAVAILABLE');
      return node;
    }
    const ready = await client.lease(node.hash);
    expect([200, 503]).toContain(ready.status);
    if (ready.status !== 200) return node;
    stored.push(node);
  }
  throw new Error('a full disk took everything');
}

/** Repeats a read until the server answers it. */
async function untilServed(client: SpaceClient, hash: string): Promise<void> {
  const deadline = Date.now() + WELL_MS_MAX;
  for (;;) {
    const answer = await client.content(hash);
    await answer.arrayBuffer();
    if (answer.status === 200) return;
    expect([429, 503]).toContain(answer.status);
    if (Date.now() > deadline) throw new Error(`${hash} is not served after ${WELL_MS_MAX} ms`);
    await Bun.sleep(50);
  }
}

async function untilHealthy(server: ServerProcess): Promise<void> {
  const deadline = Date.now() + WELL_MS_MAX;
  while (Date.now() < deadline) {
    const answer = await Promise.race([
      fetch(`${server.url}/health`).catch(() => undefined),
      Bun.sleep(1000),
    ]);
    if (answer?.status === 200) return;
    await Bun.sleep(50);
  }
  throw new Error(`the server does not answer: ${server.log().slice(-2000)}`);
}
