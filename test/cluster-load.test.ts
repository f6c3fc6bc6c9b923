// test-run: alone
/**
 * A server sheds load that is more than its share of PostgreSQL carries, and queues no request without end. A server that is
 * told to end finishes its work while the others go on.
 */
import { afterAll, expect, test } from 'bun:test';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { type Cluster, type ClusterOptions, openEngines, startCluster } from './support/cluster.ts';
import { readResidentBytes } from './support/server-process.ts';

const CONNECTIONS = 2;
/** Under the number of requests that this process sends at once. */
const CROWD = 240;
const WAVES = 3;
/** Longer than a request may wait for a connection and be served. */
const ANSWER_MS_MAX = 60_000;
const MEMORY_BYTES_MAX = 500 * 1024 * 1024;
const LARGE_BYTES = 400_000;
/** More than a drain takes at most, on a busy machine. */
const DRAIN_MS_MAX = 40_000;

const engines = await openEngines();
const clusters: Cluster[] = [];
afterAll(async () => {
  for (const cluster of clusters) await cluster.remove();
  await engines.close();
});

async function start(options: ClusterOptions): Promise<Cluster> {
  const cluster = await startCluster(engines, {
    isProxied: true,
    appId: `load-${clusters.length}`,
    ...options,
  });
  clusters.push(cluster);
  return cluster;
}

test('a crowd is served up to the limits, and the rest is told to come again', async () => {
  const cluster = await start({
    processes: 2,
    metadataParameters: { connections: String(CONNECTIONS) },
  });
  const [crowded, calm] = cluster.servers;
  const client = cluster.clientOf(0);
  const node = makeNode('wanted by all');
  await client.store(node, 3_600_000);
  crowded?.postgresProxy?.setMode({ kind: 'slow', bytesPerSecond: 10_000_000, delayMs: 25 });
  const counts = new Map<number, number>();
  let commits = 0;
  for (let wave = 0; wave < WAVES; wave += 1) {
    const startedAt = performance.now();
    const crowd = Array.from({ length: CROWD }, async (_, index) => {
      // Concurrent commits may share a transaction, but each opened upload needs its own.
      const isCommit = index % 4 === 0;
      const response = isCommit
        ? await client.request('POST', '/root-refs', {
            requestId: `wave ${wave} ${index}`,
            changes: { [node.hash]: 1 },
          })
        : await client.request('POST', `/cas/nodes/${makeNode(`wave ${wave} ${index}`).hash}/lease`, {
            leaseDurationMs: 60_000,
          });
      counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
      if (isCommit && response.status === 200) commits += 1;
      if (response.status !== 200) expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      await response.arrayBuffer();
    });
    const healthAt = performance.now();
    expect((await fetch(`${crowded?.process.url}/health`)).status).toBe(200);
    expect(performance.now() - healthAt).toBeLessThan(ANSWER_MS_MAX);
    expect((await cluster.clientOf(1).metadata(node.hash)).status).toBe(200);
    await Promise.all(crowd);
    expect(performance.now() - startedAt).toBeLessThan(ANSWER_MS_MAX);
  }
  expect([...counts.keys()].filter((status) => ![200, 429, 503].includes(status))).toEqual([]);
  expect(counts.get(200) ?? 0).toBeGreaterThan(WAVES * CONNECTIONS);
  expect((counts.get(429) ?? 0) + (counts.get(503) ?? 0)).toBeGreaterThan(CROWD / 4);
  expect(readResidentBytes(crowded?.process.pid ?? 0)).toBeLessThan(MEMORY_BYTES_MAX);
  crowded?.postgresProxy?.setMode({ kind: 'pass' });
  const { json } = await client.metadata(node.hash);
  expect(json.state.rootRefCount).toBeGreaterThanOrEqual(commits);
  expect((await client.roots()).json.revision).toBe(json.state.rootRefCount);
  expect(calm?.process.isRunning()).toBe(true);
}, 300_000);

test('on SIGTERM a server finishes what it has begun, and the others go on', async () => {
  const cluster = await start({ processes: 2 });
  const [leaving, staying] = cluster.servers;
  const client = cluster.clientOf(0);
  const large = makeNode(seededBytes(LARGE_BYTES, 1));
  const uploaded = makeNode(seededBytes(LARGE_BYTES, 2));
  await client.store(large, 3_600_000);
  const { json } = await client.lease(uploaded.hash);
  expect((await client.put(json.upload, uploaded.bytes)).status).toBe(200);
  leaving?.s3Proxy?.setMode({ kind: 'slow', bytesPerSecond: 400_000, delayMs: 0 });
  leaving?.postgresProxy?.setMode({ kind: 'slow', bytesPerSecond: 10_000_000, delayMs: 60 });
  const begun = Promise.all([
    client.content(large.hash).then((answer) => answer.bytes()),
    client.lease(uploaded.hash),
    client.commit('while it ends', { [large.hash]: 1 }),
  ]);
  // A server begins requests in order: once these are answered, all earlier ones have begun.
  for (let asked = 0; asked < 3; asked += 1) {
    expect((await fetch(`${leaving?.process.url}/health`, { keepalive: false })).status).toBe(200);
  }
  const startedAt = performance.now();
  const ended = leaving?.terminate();
  const [bytes, leased, committed] = await begun;
  expect(Buffer.compare(bytes, large.content)).toBe(0);
  expect(leased.json.state).toBe('ready');
  expect(committed).toEqual({ status: 200, json: { success: true, idempotent: false, revision: 1 } });
  expect(await ended).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(DRAIN_MS_MAX);
  await expect(fetch(`${leaving?.process.url}/health`)).rejects.toThrow();
  const other = cluster.clientOf(staying?.index ?? 1);
  expect((await other.content(uploaded.hash)).status).toBe(200);
  expect((await other.roots()).json.revision).toBe(1);
}, 300_000);
