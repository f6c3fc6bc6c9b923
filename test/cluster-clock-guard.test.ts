/**
 * The clock of the database, or of one server, is half an hour off, over real PostgreSQL and Ceph: no server collects anything
 * meanwhile.
 */
import { afterAll, expect, test } from 'bun:test';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { type ClusterServer, openEngines, startCluster } from './support/cluster.ts';
import { openDatabaseClock } from './support/database-clock.ts';
import { readPrinted } from './support/server-process.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
/** Much longer than a test takes, and much shorter than clocks are off. */
const LEASE_MS = 600_000;
const NEAR_MS = 60_000;
const OFF_MS = 1_800_000;

const engines = await openEngines();
const clock = await openDatabaseClock(engines.metadataUrl);
// Two servers; the clock of the second is half an hour ahead.
const cluster = await startCluster(engines, {
  processes: 2,
  clockOffsetsMs: [0, OFF_MS],
  maxClockSkew: '2m',
  arguments: ['--operator-listen', '127.0.0.1:0'],
});
const [right, ahead] = cluster.servers as readonly [ClusterServer, ClusterServer];
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

async function readSkew(server: ClusterServer, source: string): Promise<number> {
  const operators = await readPrinted(server.process, /^operators: (\S+)\n/m);
  const text = await (await fetch(`${operators}/metrics`)).text();
  return Number(
    new RegExp(`^holdfast_clock_skew_seconds\\{source="${source}"\\} (\\S+)$`, 'm').exec(text)?.[1],
  );
}

function isNear(seconds: number, expectedMs: number): boolean {
  return Math.abs(seconds * 1000 - expectedMs) < NEAR_MS;
}

test(
  'a server whose own clock is off collects nothing, says so, and serves on; the others collect',
  async () => {
    const [sound, off] = [cluster.clientOf(0, 'own-clock'), cluster.clientOf(1, 'own-clock')];
    const node = makeNode(seededBytes(5000, 1));
    await off.store(node, LEASE_MS);
    const refused = await off.gc();
    expect([refused.status, refused.json.error]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    expect((await off.metadata(node.hash)).status).toBe(200);
    expect((await sound.gc()).json).toEqual({ examined: 0, deleted: 0, reclaimedContentBytes: 0 });
    await until(() => ahead.process.log().includes('more than 2m behind'));
    for (const source of ['rows', 'bytes']) {
      await until(async () => isNear(await readSkew(ahead, source), -OFF_MS));
      await until(async () => isNear(await readSkew(right, source), 0));
    }
  },
  TEST_MS_MAX,
);

test(
  "a database's clock that jumps ahead makes no lease expire for a collection, until it is right again",
  async () => {
    const client = cluster.clientOf(0, 'database-clock');
    const nodes = [makeNode('small'), makeNode(seededBytes(5000, 2))];
    for (const node of nodes) await client.store(node, LEASE_MS);
    await clock.advance(OFF_MS);
    expect((await client.gc()).status).toBe(503);
    await until(() => right.process.log().includes('more than 2m ahead of'));
    await until(async () => isNear(await readSkew(right, 'rows'), OFF_MS));
    for (const node of nodes) expect((await client.metadata(node.hash)).status).toBe(200);
    // Callers can renew leases while the operator corrects the clock.
    expect((await client.lease((nodes[0] as (typeof nodes)[0]).hash, LEASE_MS)).json.state).toBe('ready');
    await clock.advance(-OFF_MS);
    expect((await client.gc()).json).toEqual({ examined: 0, deleted: 0, reclaimedContentBytes: 0 });
  },
  TEST_MS_MAX,
);
