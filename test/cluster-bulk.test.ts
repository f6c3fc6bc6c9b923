/** Packs on several real servers over PostgreSQL and one bucket: one server finishes the work that another began. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SQL } from 'bun';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { type Cluster, openEngines, startCluster } from './support/cluster.ts';
import { makePack, packed, plain } from './support/planted-pack.ts';
import { APP } from './support/running-server.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { until } from './support/until.ts';

const SPACE = 'bulk';
const MIB = 1024 * 1024;
const PACKS_AT_ONCE = 4;
/** these packs have 240; a judgement holds one record, and pieces that sockets bring */
const MEMORY_GROWTH_MAX_MIB = 170;

const engines = await openEngines();
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(engines);
}, 300_000);
afterEach(async () => {
  const counted = await recountScaleout(engines.metadataUrl);
  expect(counted.problems).toEqual([]);
  expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
});
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

function clientOf({ servers, issuer }: Cluster, index: number): BulkClient {
  return makeBulkClient(() => servers[index]?.process.url ?? '', APP, SPACE, issuer.token(SPACE));
}

/** Leaves, and parents of 16 of them each. */
function makeTree(name: string, leaves: number): CanonicalNode[] {
  const below = Array.from({ length: leaves }, (_, index) => makeNode(`${name} ${index} ${'x'.repeat(200)}`));
  const parents = Array.from({ length: leaves / 16 }, (_, index) =>
    makeNode(`${name} parent ${index}`, {
      refs: below.slice(index * 16, index * 16 + 16).map(({ hash }) => hash),
    }),
  );
  return [...parents, ...below];
}

/** -1 if its publication has not begun */
async function countPublished(id: string): Promise<number> {
  await using sql = new SQL(engines.metadataUrl, { max: 1 });
  const [row] = await sql`SELECT published_count FROM packs WHERE id = decode(${id}, 'hex') AND state > 0`;
  return row === undefined ? -1 : Number(row.published_count);
}

test('servers that lease one pack at once all answer with every node, and each server reads every node', async () => {
  const clients = [0, 1, 2].map((index) => clientOf(cluster, index));
  const [first, second] = clients as [BulkClient, BulkClient];
  const nodes = makeTree('at once', 800);
  const hashes = nodes.map(({ hash }) => hash);
  const pack = await first.open(hashes);
  expect((await first.put(pack, makePack(nodes.map(packed)))).status).toBe(200);
  const answers = await Promise.all(clients.map((client) => client.lease(pack.id)));
  for (const { status, json } of answers) {
    expect(status).toBe(200);
    expect(json.results.map(({ hash }: { hash: string }) => hash)).toEqual(hashes);
    expect(json.results.every(({ state }: { state: string }) => state === 'ready')).toBe(true);
  }
  const read = await second.read(hashes);
  expect(read.map(({ hash }) => hash)).toEqual(hashes);
  expect(
    read.every(({ stored }, index) => Buffer.compare(stored, nodes[index]?.bytes as Uint8Array) === 0),
  ).toBe(true);
  expect((await second.read(hashes, ['zstd'])).some(({ codec }) => codec === 1)).toBe(true);
}, 300_000);

test('a server is killed while it publishes a pack: another publishes the rest', async () => {
  const clients = [0, 1].map((index) => clientOf(cluster, index)) as [BulkClient, BulkClient];
  for (const published of [0, 512]) {
    const nodes = makeTree(`killed behind ${published}`, 800);
    const hashes = nodes.map(({ hash }) => hash);
    const pack = await clients[0].open(hashes);
    expect((await clients[0].put(pack, makePack(nodes.map(packed)))).status).toBe(200);
    const leasing = clients[0].lease(pack.id).catch(() => undefined);
    await until(async () => (await countPublished(pack.id)) >= published);
    await cluster.servers[0]?.kill();
    await leasing;
    const { status, json } = await clients[1].lease(pack.id);
    expect([status, json.results.filter(({ state }: { state: string }) => state === 'ready').length]).toEqual(
      [200, hashes.length],
    );
    expect((await clients[1].read(hashes)).length).toBe(hashes.length);
    await cluster.servers[0]?.start();
  }
}, 600_000);

test('large packs are judged with one record of each in memory', async () => {
  const client = clientOf(cluster, 2);
  const pid = cluster.servers[2]?.process.pid ?? 0;
  const peak = () =>
    Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  const send = async (count: number) => {
    const nodes = Array.from({ length: count }, () => makeNode(randomBytes(1.5 * MIB)));
    const { status, json } = await client.send(nodes, nodes.map(plain));
    expect([status, json.results?.length, json.broken]).toEqual([200, count, undefined]);
  };
  await send(1);
  await send(2);
  const before = peak();
  await Promise.all(Array.from({ length: PACKS_AT_ONCE }, () => send(40)));
  expect(peak() - before).toBeLessThan(MEMORY_GROWTH_MAX_MIB);
}, 300_000);
