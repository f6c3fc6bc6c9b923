/**
 * The clocks of three servers are half a minute ahead, half a minute behind, and right. Leases, collections, uploads and usage
 * follow the clock of the database, so it makes no difference which server a client asks.
 */
import { afterAll, expect, test } from 'bun:test';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { openEngines, startCluster } from './support/cluster.ts';
import { openDatabaseClock } from './support/database-clock.ts';
import type { SpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const CLOCK_OFFSETS_MS = [30_000, -30_000, 0];
const MINUTE_MS = 60_000;
const UPLOAD_TTL_MS = 300_000;
/** Far less than the clocks are off, more than a request takes. */
const NEAR_MS = 12_000;

const engines = await openEngines();
const clock = await openDatabaseClock(engines.metadataUrl);
const startedAt = Date.now();
const cluster = await startCluster(engines, { clockOffsetsMs: CLOCK_OFFSETS_MS });
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

function clientsOf(space: string): readonly [ahead: SpaceClient, behind: SpaceClient, right: SpaceClient] {
  return [0, 1, 2].map((index) => cluster.clientOf(index, space)) as unknown as readonly [
    SpaceClient,
    SpaceClient,
    SpaceClient,
  ];
}

function expectNear(at: number, expectedAt: number): void {
  expect(at).toBeGreaterThan(expectedAt - NEAR_MS);
  expect(at).toBeLessThan(expectedAt + NEAR_MS);
}

test('the clocks of the servers are off as planned', async () => {
  for (const [index, offsetMs] of CLOCK_OFFSETS_MS.entries()) {
    const answer = await fetch(`${cluster.servers[index]?.process.url}/health`);
    const log = () => cluster.servers[index]?.process.log() ?? '';
    await until(() => log().includes('\n'));
    const logged = log().split('\n')[0] ?? '';
    expect(answer.status).toBe(200);
    const loggedAt = new Date(JSON.parse(logged).time).getTime() - offsetMs;
    expect(loggedAt).toBeGreaterThanOrEqual(startedAt);
    expect(loggedAt).toBeLessThanOrEqual(Date.now());
  }
});

test('leases begin and end by the clock of the database', async () => {
  const clients = clientsOf('leases');
  for (const client of clients) {
    const { json } = await client.store(makeNode(`leased by ${client.spaceUrl}`), MINUTE_MS);
    expectNear(json.leaseStartedAt, clock.now());
    expect(json.leaseExpiresAt - json.leaseStartedAt).toBe(MINUTE_MS);
  }
  const [ahead, behind, right] = clients;
  const node = makeNode('renewed by all');
  const first = (await ahead.store(node, MINUTE_MS)).json;
  let { leaseExpiresAt } = first;
  for (const client of [behind, right, ahead, behind]) {
    await clock.advance(10_000);
    const { json } = await client.lease(node.hash, MINUTE_MS);
    expect(json.leaseStartedAt).toBe(first.leaseStartedAt);
    expect(json.leaseExpiresAt).toBeGreaterThan(leaseExpiresAt);
    expectNear(json.leaseExpiresAt, clock.now() + MINUTE_MS);
    leaseExpiresAt = json.leaseExpiresAt;
  }
});

test('a collection takes nothing whose lease runs, and everything whose lease is over, whoever is asked', async () => {
  const [ahead, behind, right] = clientsOf('collections');
  const node = makeNode('nearly over');
  for (const collector of [ahead, behind, right]) {
    const { json } = await right.store(node, MINUTE_MS);
    await clock.advance(json.leaseExpiresAt - NEAR_MS - clock.now());
    for (const client of [ahead, behind, right]) {
      expect((await client.gc()).json.deleted).toBe(0);
      expect((await client.usage()).leasedNodeCount).toBe(1);
    }
    await clock.advance(json.leaseExpiresAt + 1 - clock.now());
    for (const client of [ahead, behind, right]) {
      expect((await client.usage()).leasedNodeCount).toBe(0);
      expect((await client.metadata(node.hash)).status).toBe(200);
    }
    expect((await collector.gc()).json).toMatchObject({ examined: 1, deleted: 1 });
    for (const client of [ahead, behind, right]) expect((await client.metadata(node.hash)).status).toBe(404);
  }
});

test('one upload is the same for all servers: the URL of each is good, and expires by the clock of the database', async () => {
  const clients = clientsOf('uploads');
  for (const [index, client] of clients.entries()) {
    const node = makeNode(seededBytes(4000, index));
    const leases = await Promise.all(clients.map((each) => each.lease(node.hash)));
    const first = leases[0]?.json;
    for (const { json } of leases) {
      expect(json.state).toBe('awaiting_upload');
      expectNear(json.upload.expiresAt, clock.now() + UPLOAD_TTL_MS);
      expect(new URL(json.upload.url).pathname).toBe(new URL(first.upload.url).pathname);
    }
    const own = await client.lease(node.hash);
    expect((await client.put(own.json.upload, node.bytes)).status).toBe(200);
    expect((await client.put(first.upload, node.bytes)).status).toBe(412);
    for (const each of clients) expect((await each.lease(node.hash)).json.state).toBe('ready');
  }
  const late = makeNode('never uploaded');
  const [ahead, behind] = clients;
  const before = (await behind.lease(late.hash)).json.upload;
  await clock.advance(before.expiresAt - NEAR_MS - clock.now());
  const same = (await ahead.lease(late.hash)).json.upload;
  expect(new URL(same.url).pathname).toBe(new URL(before.url).pathname);
  await clock.advance(same.expiresAt + 1 - clock.now());
  const fresh = (await behind.lease(late.hash)).json.upload;
  expect(new URL(fresh.url).pathname).not.toBe(new URL(before.url).pathname);
});

test('a walk over root refs goes on at any server', async () => {
  const clients = clientsOf('walks');
  const nodes = Array.from({ length: 7 }, (_, index) => makeNode(`root ${index}`));
  for (const node of nodes) await clients[0].store(node);
  expect(
    (await clients[1].commit('all', Object.fromEntries(nodes.map(({ hash }) => [hash, 1])))).status,
  ).toBe(200);
  const seen: string[] = [];
  let query = '?limit=2';
  for (let page = 0; page < nodes.length; page += 1) {
    const { status, json } = await (clients[page % 3] as SpaceClient).roots(query);
    expect([status, json.revision]).toEqual([200, 1]);
    seen.push(...json.items.map(({ hash }: { hash: string }) => hash));
    if (json.nextCursor === null) break;
    await clients[2].commit(`between ${page}`, { [nodes[0]?.hash ?? '']: 1 });
    query = `?limit=2&cursor=${encodeURIComponent(json.nextCursor)}`;
  }
  expect(seen).toEqual(nodes.map(({ hash }) => hash).sort());
});
