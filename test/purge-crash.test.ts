/**
 * kill -9 during a purge, of the server and of the command that does it, on both engines: the rest is sound, the same command
 * goes on, and it says exactly how many nodes it removed.
 */
import { Database } from 'bun:sqlite';
import { afterEach, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines, startCluster } from './support/cluster.ts';
import { databasePath } from './support/embedded-files.ts';
import { findLeftovers, recount } from './support/embedded-recount.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { APP, startFreshServer } from './support/running-server.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { runHoldfast } from './support/server-process.ts';
import type { SpaceClient } from './support/space-client.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { until } from './support/until.ts';

/** Only ends what hangs: an object store of its own takes its time where many tests run. */
const TEST_MS_MAX = 300_000;
const SPACE = 'purged';
const KEPT = 'kept';
const HOUR_MS = 3_600_000;
const AT_ONCE = 16;
/** More than an engine keeps as a row. */
const OBJECT_BYTES = 40_000;
const LOOK_MS = 2;
const SLOW = { kind: 'slow', bytesPerSecond: 1024 * 1024, delayMs: 10 } as const;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** How many nodes there are of each kind. */
interface Filling {
  readonly leaves: number;
  readonly objects: number;
}

/** Leaves, objects, parents that hold them, parents that wait, open uploads, and root refs; resolves with the count of nodes. */
async function fill(client: SpaceClient, { leaves, objects }: Filling): Promise<number> {
  const small = Array.from({ length: leaves }, (_, index) => makeNode(`leaf ${index}`));
  const large = Array.from({ length: objects }, (_, index) => makeNode(seededBytes(OBJECT_BYTES, index)));
  const first = [...small, ...large];
  const parents = large.map(({ hash }, index) =>
    makeNode(`parent ${index}`, { refs: [hash, (small[index] as CanonicalNode).hash] }),
  );
  const waiting = large.map((_, index) =>
    makeNode(`waits ${index}`, { refs: [makeNode(`never ${index}`).hash] }),
  );
  for (const nodes of [first, [...parents, ...waiting]]) {
    const left = nodes.values();
    const storeAll = async (): Promise<void> => {
      for (const node of left) await client.store(node, HOUR_MS);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, storeAll));
  }
  for (let index = 0; index < objects; index += 1) await client.lease(makeNode(`open ${index}`).hash);
  const held = [...parents, ...small.slice(0, leaves / 2)].map(({ hash }) => [hash, 1]);
  expect((await client.commit('fill', Object.fromEntries(held))).status).toBe(200);
  return first.length + parents.length + waiting.length;
}

/** A purge that may be killed. At the lowest priority, so that the one who watches it is not late. */
function startPurge(place: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const command = ['space', 'purge', APP, SPACE, '--confirm', SPACE, '--json', ...place];
  const child = Bun.spawn(['nice', '-n', '19', HOLDFAST, ...command], {
    env: { ...process.env, ...environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const output = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return {
    isRunning: () => child.exitCode === null && child.signalCode === null,
    async kill() {
      child.kill('SIGKILL');
      await child.exited;
    },
    async end() {
      const [stdout, stderr] = await output;
      return { exitCode: await child.exited, stdout, stderr };
    },
  };
}

type Purge = ReturnType<typeof startPurge>;

/** Starts purges until one has removed something, and strikes then. Resolves with how many nodes are left. */
async function strikeOnce(
  start: () => Purge,
  count: () => number | Promise<number>,
  strike: (purge: Purge) => Promise<unknown>,
): Promise<number> {
  const before = await count();
  for (;;) {
    const purge = start();
    while (purge.isRunning() && (await count()) === before) await Bun.sleep(LOOK_MS);
    if ((await count()) < before) {
      await strike(purge);
      await purge.end();
      return count();
    }
    // For some seconds a server might still serve the App that was suspended.
    expect((await purge.end()).stderr).toContain('servers may still serve the App');
  }
}

async function expectPurged(purge: Purge, nodes: number): Promise<void> {
  const { exitCode, stdout, stderr } = await purge.end();
  // On a busy machine it says for what it waits.
  expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('holdfast:')]);
  expect(JSON.parse(stdout)).toEqual({ app: APP, space: SPACE, nodes });
}

const NOTHING = { nodeCount: 0, notReadyNodeCount: 0, readyStoredBytes: 0, reservedBytes: 0 };

test(
  'on the embedded engine: of the server, then of the command that works without one',
  async () => {
    const running = await startFreshServer('purge-crash');
    closers.push(() => running.remove());
    const { data } = running;
    const operate = async (...args: readonly string[]): Promise<string> => {
      const { exitCode, stdout, stderr } = await runHoldfast([...args, '--data', data]);
      expect([exitCode, stderr]).toEqual([0, '']);
      return stdout;
    };
    const all = await fill(running.client(SPACE), { leaves: 900, objects: 40 });
    const kept = await fill(running.client(KEPT), { leaves: 20, objects: 4 });
    const keptUsage = await running.client(KEPT).usage();
    await operate('app', 'suspend', APP);

    const database = new Database(databasePath(data), { readonly: true });
    closers.push(() => database.close());
    const rows = database.query<{ count: number }, []>('SELECT count(*) AS count FROM nodes');
    const count = (): number => (rows.get()?.count ?? 0) - kept;
    expect(count()).toBe(all);
    const start = () => startPurge(['--data', data]);
    const expectSound = (): void => expect(recount(data).problems).toEqual([]);

    const afterServer = await strikeOnce(start, count, () => running.server.end('SIGKILL'));
    expectSound();
    const afterCommand = await strikeOnce(start, count, (purge) => purge.kill());
    expectSound();
    expect([afterServer < all, afterServer > 0, afterCommand < afterServer]).toEqual([true, true, true]);
    await running.restart('SIGKILL');
    await expectPurged(start(), count());
    await expectPurged(start(), 0);

    await operate('app', 'resume', APP);
    const client = running.client(SPACE);
    await until(async () => (await client.request('GET', '/cas/usage')).status === 200);
    expect(await client.usage()).toMatchObject(NOTHING);
    expect(await running.client(KEPT).usage()).toEqual(keptUsage);
    await until(() => findLeftovers(data).orphans.length === 0);
    expectSound();
    expect(findLeftovers(data).missing).toEqual([]);
  },
  TEST_MS_MAX,
);

test(
  'on PostgreSQL and S3: of the command, again and again',
  async () => {
    const engines = await openEngines();
    closers.push(() => engines.close());
    const cluster = await startCluster(engines, { processes: 1 });
    closers.push(() => cluster.remove());
    const all = await fill(cluster.clientOf(0, SPACE), { leaves: 250, objects: 10 });
    const kept = await fill(cluster.clientOf(0, KEPT), { leaves: 10, objects: 2 });
    const keptUsage = await cluster.clientOf(0, KEPT).usage();
    const environment = makeS3Environment(engines.bucket);
    const suspended = await runHoldfast(['app', 'suspend', APP, '--metadata', engines.metadataUrl]);
    expect([suspended.exitCode, suspended.stderr]).toEqual([0, '']);

    const sql = new SQL(engines.metadataUrl, { max: 1 });
    closers.push(() => sql.close());
    const count = async (): Promise<number> => {
      const [row] = (await sql.unsafe('SELECT count(*)::int AS count FROM nodes')) as [{ count: number }];
      return row.count - kept;
    };
    expect(await count()).toBe(all);
    // Each statement takes a while, so that there is time to strike between two.
    const proxy = await startTcpProxy({ port: Number(new URL(engines.metadataUrl).port) });
    closers.push(() => proxy.close());
    proxy.setMode(SLOW);
    const slow = new URL(engines.metadataUrl);
    slow.port = String(proxy.port);
    const start = (metadataUrl = slow.href) =>
      startPurge(['--metadata', metadataUrl, '--content', formatContentUrl(engines.bucket)], environment);
    const expectSound = async (): Promise<void> => {
      const counted = await recountScaleout(engines.metadataUrl);
      expect(counted.problems).toEqual([]);
      expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
    };

    const strike = async (purge: Purge): Promise<void> => {
      await purge.kill();
      // Bytes that the proxy still holds are lost; PostgreSQL ends what it has begun.
      proxy.setMode({ kind: 'reset' });
      await until(async () => {
        const busy = await sql.unsafe(`SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`);
        return busy.length === 0;
      });
      proxy.setMode(SLOW);
    };

    let left = all;
    for (let strikes = 0; strikes < 2; strikes += 1) {
      const before = left;
      left = await strikeOnce(start, count, strike);
      expect([left < before, left > 0]).toEqual([true, true]);
      await expectSound();
    }
    await expectPurged(start(engines.metadataUrl), left);
    await expectPurged(start(engines.metadataUrl), 0);
    await expectSound();

    await runHoldfast(['app', 'resume', APP, '--metadata', engines.metadataUrl]);
    const client = cluster.clientOf(0, SPACE);
    await until(async () => (await client.request('GET', '/cas/usage')).status === 200);
    expect(await client.usage()).toMatchObject(NOTHING);
    expect(await cluster.clientOf(0, KEPT).usage()).toEqual(keptUsage);
  },
  TEST_MS_MAX,
);
