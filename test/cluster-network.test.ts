/**
 * The network between one server of three and its engines hangs, resets, slows down and is cut. Every request ends in bounded
 * time with an answer that says to come again, the other servers notice nothing, and all goes on afterwards. Nothing
 * acknowledged is lost, nothing is done twice, and nothing counts as rot.
 */
import { afterAll, afterEach, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { type ClusterServer, openEngines, startCluster } from './support/cluster.ts';
import { openDatabaseClock } from './support/database-clock.ts';
import { APP } from './support/running-server.ts';
import { findBucketLeftovers, proveUsage, recountScaleout } from './support/scaleout-recount.ts';
import type { SpaceClient } from './support/space-client.ts';
import type { ProxyMode, TcpProxy } from './support/tcp-proxy.ts';

/** The longest any request may take, whatever the network does. */
const REQUEST_MS_MAX = 40_000;
/** The longest answer of an undisturbed server on a busy machine. */
const UNDISTURBED_MS_MAX = 30_000;
const RECOVERY_MS_MAX = 120_000;
const LEASE_OVER_MS = 61_000;
const CLAIM_HELD_MS = 11_000;
const LARGE_BYTES = 600_000;
const PASS: ProxyMode = { kind: 'pass' };
const HANG: ProxyMode = { kind: 'hang' };
const RESET: ProxyMode = { kind: 'reset' };

const engines = await openEngines();
const clock = await openDatabaseClock(engines.metadataUrl);
const cluster = await startCluster(engines, { isProxied: true });
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

const proxiesOf = ({ postgresProxy, s3Proxy }: ClusterServer): { postgres: TcpProxy; s3: TcpProxy } => {
  if (postgresProxy === undefined || s3Proxy === undefined) throw new Error('the cluster is not proxied');
  return { postgres: postgresProxy, s3: s3Proxy };
};
const [disturbed, other, third] = cluster.servers as [ClusterServer, ClusterServer, ClusterServer];

let spaces = 0;
function newSpace(): { readonly id: string; of(server: ClusterServer): SpaceClient } {
  spaces += 1;
  const id = `space-${spaces}`;
  return { id, of: (server) => cluster.clientOf(server.index, id) };
}
const used: string[] = [];

/** After each test the network is well again, and rows, bucket and answers agree. */
afterEach(async () => {
  for (const server of cluster.servers) {
    const { postgres, s3 } = proxiesOf(server);
    postgres.setMode(PASS);
    s3.setMode(PASS);
  }
  const counted = await recountScaleout(engines.metadataUrl);
  expect(counted.problems).toEqual([]);
  expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
  for (const id of used.splice(0)) {
    expect(counted.hashes(APP, id, 'rotten')).toEqual([]);
    for (const server of cluster.servers) {
      const client = cluster.clientOf(server.index, id);
      await untilWell(client);
      await proveUsage(engines.metadataUrl, [APP, id], client, () => clock.now());
    }
  }
}, 300_000);

async function untilWell(client: SpaceClient): Promise<void> {
  const deadline = Date.now() + RECOVERY_MS_MAX;
  for (;;) {
    const { status } = await client.request('GET', '/cas/usage');
    if (status === 200) return;
    expect([429, 503]).toContain(status);
    if (Date.now() > deadline) throw new Error(`not well ${RECOVERY_MS_MAX} ms after the network is`);
    await Bun.sleep(50);
  }
}

interface Outcome {
  readonly what: string;
  readonly status: number;
  readonly ms: number;
}

/** An answer in time: the expected one, or one that says to come again. */
async function measure(what: string, request: Promise<Response>): Promise<Outcome> {
  const startedAt = performance.now();
  const response = await request;
  if (response.status === 503 || response.status === 429) {
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    const { error } = (await response.json()) as { error: string };
    // A server that has not read the Apps for 5 s answers `registry_unavailable`.
    const refusals =
      response.status === 503 ? ['SERVICE_UNAVAILABLE', 'registry_unavailable'] : ['RESOURCE_EXHAUSTED'];
    expect(refusals).toContain(error);
  } else await response.arrayBuffer();
  const ms = performance.now() - startedAt;
  expect(`${what}: ${ms > REQUEST_MS_MAX ? ms : 'in time'}`).toBe(`${what}: in time`);
  return { what, status: response.status, ms };
}

/** One request of each operation, and whether it needs rows or bytes. */
function sendEach(
  client: SpaceClient,
  { ready, requestId }: { ready: CanonicalNode; requestId: string },
): Promise<Outcome[]> {
  const lease = { leaseDurationMs: 60_000 };
  return Promise.all([
    measure('metadata', client.request('GET', `/cas/nodes/${ready.hash}/metadata`)),
    measure('ready lease', client.request('POST', `/cas/nodes/${ready.hash}/lease`, lease)),
    measure(
      'new lease',
      client.request('POST', `/cas/nodes/${makeNode(`new ${requestId}`).hash}/lease`, lease),
    ),
    measure('commit', client.request('POST', '/root-refs', { requestId, changes: { [ready.hash]: 1 } })),
    measure('roots', client.request('GET', '/root-refs')),
    measure('usage', client.request('GET', '/cas/usage')),
    measure('content', client.content(ready.hash)),
  ]);
}

const statuses = (outcomes: readonly Outcome[]): Record<string, number> =>
  Object.fromEntries(outcomes.map(({ what, status }) => [what, status]));
const allWith = (status: number, except: Record<string, number> = {}): Record<string, number> => ({
  ...{ metadata: status, 'ready lease': status, 'new lease': status, commit: status },
  ...{ roots: status, usage: status, content: status, ...except },
});

/** Expects good answers of an undisturbed server until `isOver`. */
async function expectUndisturbed(client: SpaceClient, ready: CanonicalNode, isOver: () => boolean) {
  let rounds = 0;
  while (!isOver()) {
    const outcomes = await sendEach(client, { ready, requestId: `undisturbed-${rounds}` });
    expect(statuses(outcomes)).toEqual(allWith(200));
    expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(UNDISTURBED_MS_MAX);
    rounds += 1;
    await Bun.sleep(100);
  }
  expect(rounds).toBeGreaterThan(0);
}

test('if one server loses PostgreSQL and another its bucket in silence, both answer and the third notices nothing', async () => {
  const space = newSpace();
  used.push(space.id);
  const ready = makeNode(seededBytes(5000, 1));
  const collected = makeNode(seededBytes(5000, 2));
  const pending = makeNode(seededBytes(5000, 3));
  for (const node of [ready, collected]) await space.of(third).store(node);
  await clock.advance(LEASE_OVER_MS);
  await space.of(third).lease(ready.hash, 3_600_000);
  const { json } = await space.of(third).lease(pending.hash);
  expect((await space.of(third).put(json.upload, pending.bytes)).status).toBe(200);

  proxiesOf(disturbed).postgres.setMode(HANG);
  proxiesOf(other).s3.setMode(HANG);
  let isOver = false;
  const lease = { leaseDurationMs: 60_000 };
  const disturbances = Promise.all([
    sendEach(space.of(disturbed), { ready, requestId: 'without rows' }),
    sendEach(space.of(other), { ready, requestId: 'without bytes' }),
    measure('judging', space.of(other).request('POST', `/cas/nodes/${pending.hash}/lease`, lease)),
    measure('gc', space.of(other).request('POST', '/cas/gc', { maxNodes: 1 })),
    measure('health', fetch(`${disturbed.process.url}/health`)),
  ]).finally(() => {
    isOver = true;
  });
  const [[withoutRows, withoutBytes, judged, pass, health]] = await Promise.all([
    disturbances,
    expectUndisturbed(space.of(third), ready, () => isOver),
  ]);
  expect(Object.values(statuses(withoutRows)).every((status) => status === 503 || status === 429)).toBe(true);
  expect(statuses(withoutBytes)).toEqual(allWith(200, { content: 503 }));
  expect([judged.status, pass.status, health.status]).toEqual([503, 503, 200]);

  for (const server of [disturbed, other]) {
    const { postgres, s3 } = proxiesOf(server);
    postgres.setMode(PASS);
    s3.setMode(PASS);
    await untilWell(space.of(server));
  }
  const commits = await space.of(third).roots();
  expect(await space.of(disturbed).commit('without rows', { [ready.hash]: 1 })).toMatchObject({
    status: 200,
    json: { success: true },
  });
  const { revision } = (await space.of(other).roots()).json;
  expect(revision - commits.json.revision).toBeLessThanOrEqual(1);
  expect((await space.of(other).metadata(ready.hash)).json.state.rootRefCount).toBe(revision);
  expect((await space.of(other).lease(pending.hash)).json.state).toBe('ready');
  expect((await space.of(other).content(ready.hash)).status).toBe(200);
  // The pass that failed left its claim, which is a pass's own for a while.
  await clock.advance(CLAIM_HELD_MS);
  await space.of(disturbed).gc();
  expect((await space.of(disturbed).metadata(collected.hash)).status).toBe(404);
}, 300_000);

test('connections are reset under load: each request ends at once, and the next ones are served', async () => {
  const space = newSpace();
  used.push(space.id);
  const nodes = Array.from({ length: 8 }, (_, seed) => makeNode(seededBytes(100_000, 10 + seed)));
  for (const node of nodes) await space.of(third).store(node, 3_600_000);
  for (const kind of ['postgres', 's3'] as const) {
    const requests = Array.from({ length: 60 }, (_, index) =>
      measure(`${kind} ${index}`, space.of(disturbed).content(nodes[index % nodes.length]?.hash ?? '')).catch(
        (error) => ({ what: String(error), status: 0, ms: 0 }),
      ),
    );
    await Bun.sleep(10);
    proxiesOf(disturbed)[kind].setMode(RESET);
    let late = { status: 429 };
    // A slow machine may still hold the Space's whole share for the requests before.
    for (let tries = 0; tries < 30 && late.status === 429; tries += 1) {
      late = await measure(`${kind} while reset`, space.of(disturbed).content(nodes[0]?.hash ?? ''));
    }
    expect(late.status).toBe(503);
    for (const { status } of await Promise.all(requests)) expect([0, 200, 429, 503]).toContain(status);
    proxiesOf(disturbed)[kind].setMode(PASS);
    await untilWell(space.of(disturbed));
    for (const node of nodes) {
      const answer = await space.of(disturbed).content(node.hash);
      expect(answer.status).toBe(200);
      expect(Buffer.compare(await answer.bytes(), node.content)).toBe(0);
    }
  }
}, 300_000);

test('a slow network makes answers slow, and nothing else', async () => {
  const space = newSpace();
  used.push(space.id);
  const { postgres, s3 } = proxiesOf(disturbed);
  postgres.setMode({ kind: 'slow', bytesPerSecond: 1_000_000, delayMs: 40 });
  s3.setMode({ kind: 'slow', bytesPerSecond: 400_000, delayMs: 20 });
  const large = makeNode(seededBytes(LARGE_BYTES, 20));
  const parent = makeNode('parent', { refs: [large.hash, large.hash] });
  await space.of(disturbed).store(large, 3_600_000);
  await space.of(disturbed).store(parent, 3_600_000);
  const answer = await space.of(disturbed).content(large.hash);
  expect(answer.status).toBe(200);
  expect(Buffer.compare(await answer.bytes(), large.content)).toBe(0);
  const outcomes = await sendEach(space.of(disturbed), { ready: parent, requestId: 'slow' });
  expect(statuses(outcomes)).toEqual(allWith(200));
}, 300_000);

test('a commit repeated after a connection to PostgreSQL broke anywhere counts once', async () => {
  const space = newSpace();
  used.push(space.id);
  const node = makeNode('counted');
  await space.of(third).store(node, 3_600_000);
  const { postgres } = proxiesOf(disturbed);
  let undecided = 0;
  const cuts = [1, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 240, 280, 320, 400, 500, 700];
  for (const [index, afterBytes] of cuts.entries()) {
    postgres.setMode({ kind: 'cut', afterBytes });
    const requestId = `cut ${index}`;
    const changes = { [node.hash]: 1 };
    const first = await measure(
      requestId,
      space.of(disturbed).request('POST', '/root-refs', { requestId, changes }),
    );
    if (first.status !== 200) undecided += 1;
    const again = await space.of(index % 2 === 0 ? other : third).commit(requestId, changes);
    expect(again).toMatchObject({ status: 200, json: { success: true, revision: index + 1 } });
    if (first.status === 200) expect(again.json.idempotent).toBe(true);
  }
  expect(undecided).toBeGreaterThan(cuts.length / 4);
  postgres.setMode(PASS);
  await untilWell(space.of(disturbed));
  expect((await space.of(disturbed).metadata(node.hash)).json.state.rootRefCount).toBe(cuts.length);
}, 300_000);

test('an object read over breaking connections to the bucket is right if it looks complete', async () => {
  const space = newSpace();
  used.push(space.id);
  const node = makeNode(seededBytes(LARGE_BYTES, 30));
  await space.of(third).store(node, 3_600_000);
  const { s3 } = proxiesOf(disturbed);
  const outcomes = { whole: 0, broken: 0, refused: 0 };
  for (const afterBytes of [1, 200, 400, 1000, 10_000, 65_536, 100_000, 300_000, 599_000, 600_500, 700_000]) {
    s3.setMode({ kind: 'cut', afterBytes });
    const answer = await space.of(disturbed).content(node.hash);
    if (answer.status === 503) {
      outcomes.refused += 1;
      continue;
    }
    expect(answer.status).toBe(200);
    const bytes = await answer.bytes().catch(() => undefined);
    if (bytes === undefined) outcomes.broken += 1;
    else {
      outcomes.whole += 1;
      expect(Buffer.compare(bytes, node.content)).toBe(0);
    }
  }
  s3.setMode(PASS);
  expect(outcomes.whole).toBeGreaterThan(0);
  expect(outcomes.refused + outcomes.broken).toBeGreaterThan(0);
  const answer = await space.of(disturbed).content(node.hash);
  expect(Buffer.compare(await answer.bytes(), node.content)).toBe(0);
}, 300_000);
