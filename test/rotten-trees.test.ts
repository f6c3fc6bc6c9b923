/**
 * The stored bytes of a pushed tree are damaged on a real server's disk: the log names the nodes, every process tells of them,
 * and the next push uploads them again instead of saying that all is there.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '../packages/client/index.ts';
import { seededBytes } from './support/canonical-node.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { readPlace } from './support/read-place.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const WORKERS = 2;
/** Fresh connections in a row that must agree: with two processes on one port both have answered. */
const AGREEING_ANSWERS = 24;
const FILE_BYTES = 100_000;
const TEST_MS_MAX = 300_000;

const folder = makeTempFolder('rotten-trees');
const tree = join(folder.path, 'tree');
let running: RunningServer;

beforeAll(async () => {
  mkdirSync(join(tree, 'inner', 'deep'), { recursive: true });
  writeFileSync(join(tree, 'inner', 'deep', 'large'), seededBytes(FILE_BYTES, 1));
  writeFileSync(join(tree, 'inner', 'small'), 'small');
  writeFileSync(join(tree, 'other'), seededBytes(FILE_BYTES, 2));
  running = await startFreshServer('rotten-trees-server', { arguments: ['--workers', String(WORKERS)] });
}, TEST_MS_MAX);
afterAll(async () => {
  await running.remove();
  folder.remove();
});

async function run(
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const { exitCode, stdout, stderr } = await runHoldfast(args, {
    environment: {
      HOLDFAST_URL: running.server.url,
      HOLDFAST_APP: APP,
      HOLDFAST_SPACE: SPACE,
      HOLDFAST_TOKEN: running.issuer.token(SPACE),
      XDG_CACHE_HOME: join(folder.path, 'cache'),
    },
  });
  if (exitCode !== 0) throw new Error(`holdfast ${args.join(' ')}: ${stderr}`);
  return { stdout, stderr };
}

interface Pushed {
  readonly root: string;
  readonly uploadedNodes: number;
  readonly rottenNodes: number;
}

async function push(): Promise<
  Pushed & {
    readonly done: { readonly requests: number; readonly bytes: number; readonly deduplicatedBytes: number };
  }
> {
  const { stdout, stderr } = await run('push', tree, '--json');
  const events = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return { ...(JSON.parse(stdout) as Pushed), done: events.at(-1).counters };
}

/** The headers of damage in the answers of a lease and of readMetadata, each over a connection of its own. */
async function readTold(hash: string): Promise<readonly (string | null)[]> {
  const headers = { authorization: `Bearer ${running.issuer.token(SPACE)}`, connection: 'close' };
  const node = `${running.server.url}/v1/apps/${APP}/spaces/${SPACE}/cas/nodes/${hash}`;
  const lease = await fetch(`${node}/lease`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ leaseDurationMs: 60_000 }),
  });
  const metadata = await fetch(`${node}/metadata`, { headers });
  expect(lease.headers.get('access-control-expose-headers')).toContain('Holdfast-Rotten-Nodes');
  return [lease, metadata].map((answer) => answer.headers.get('holdfast-rotten-nodes'));
}

/** Waits until all processes answer the same, because each learns it by itself. */
async function untilAllTell(hash: string, count: string | null): Promise<void> {
  await until(async () => {
    for (let at = 0; at < AGREEING_ANSWERS; at += 1) {
      if ((await readTold(hash)).some((told) => told !== count)) return false;
    }
    return true;
  });
}

const logLines = (): Record<string, unknown>[] =>
  running.server
    .log()
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

test(
  'a rotten node is named in the log, reported by every process, and healed by a push',
  async () => {
    const first = await push();
    const again = await push();
    expect([again.uploadedNodes, again.rottenNodes, again.done.requests]).toEqual([0, 0, 1]);
    expect(await readTold(first.root)).toEqual([null, null]);

    const { stdout: listed } = await run('ls', `${first.root}/inner`, '--json');
    const small = (JSON.parse(listed) as { entries: { name: string; hash: string }[] }).entries.find(
      ({ name }) => name === 'small',
    );
    const { stdout: deep } = await run('ls', `${first.root}/inner/deep`, '--json');
    const large = (JSON.parse(deep) as { entries: { name: string; hash: string }[] }).entries[0];
    const victims = [small?.hash, large?.hash].map(String);
    const spoiler = new ByteSpoiler(running.data);
    const client = createClient({
      baseUrl: running.server.url,
      appId: APP,
      spaceId: SPACE,
      token: running.issuer.token(SPACE),
      retry: { attemptsMax: 1 },
    });
    for (const hash of victims) {
      spoiler.spoil(readPlace(running.data, hash), 'lost');
      await expect(client.getNode(hash)).rejects.toMatchObject({ status: 503 });
    }

    const findLost = () =>
      logLines().filter(({ msg }) => String(msg).startsWith('the stored content of a node is'));
    await until(() => findLost().length >= victims.length);
    expect(findLost().map(({ app, space, hash }) => ({ app, space, hash }))).toEqual(
      victims.map((hash) => ({ app: APP, space: SPACE, hash })),
    );
    await untilAllTell(first.root, '2');
    const { stderr: planned } = await run('push', tree, '--dry-run');
    expect(planned).toContain('the server knows of 2 damaged nodes in this Space');
    expect(planned).not.toContain('everything is there already');

    await running.restart('SIGTERM');
    expect(await readTold(first.root)).toEqual(['2', '2']);
    const { stderr } = await run('push', tree);
    expect(stderr).toContain('the server knows of 2 damaged nodes in this Space');
    expect(stderr).toMatch(/safe until/);
    for (const hash of victims) {
      await until(() =>
        logLines().some(
          (line) =>
            Bun.deepMatch({ app: APP, space: SPACE, hash }, line) && String(line.msg).includes('was healed'),
        ),
      );
    }
    const out = join(folder.path, 'out');
    await run('pull', first.root, out);
    expect(readFileSync(join(out, 'inner', 'small'), 'utf8')).toBe('small');
    expect(
      Buffer.compare(readFileSync(join(out, 'inner', 'deep', 'large')), seededBytes(FILE_BYTES, 1)),
    ).toBe(0);

    await untilAllTell(first.root, null);
    const last = await push();
    expect([last.uploadedNodes, last.rottenNodes, last.done.requests]).toEqual([0, 0, 1]);
  },
  TEST_MS_MAX,
);

test(
  'a push reports damage elsewhere in the Space, and still counts sound nodes as there',
  async () => {
    const elsewhere = join(folder.path, 'elsewhere');
    writeFileSync(elsewhere, seededBytes(FILE_BYTES, 3));
    const other = (await run('push', elsewhere)).stdout.trim();
    await push();
    new ByteSpoiler(running.data).spoil(readPlace(running.data, other), 'lost');
    await run('verify', other).catch(() => undefined);
    await untilAllTell(other, '1');
    const pushed = await push();
    expect([pushed.uploadedNodes, pushed.rottenNodes]).toEqual([0, 1]);
    expect(pushed.done.deduplicatedBytes).toBe(pushed.done.bytes);
    expect(pushed.done.requests).toBeGreaterThan(1);
    expect((await run('push', tree)).stderr).toContain('none of them belongs to this tree');
    const healed = JSON.parse((await run('push', elsewhere, '--json')).stdout) as Pushed;
    expect(healed.uploadedNodes).toBe(1);
  },
  TEST_MS_MAX,
);
