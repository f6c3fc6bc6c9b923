/**
 * Clients of three server processes meet at the same few nodes, round after round: they upload shared trees, lease, commit in
 * two domains, collect and read at once. The clock of the database moves on, and those of the servers are wrong in both
 * directions. Every answer must be possible by itself. At the end everything acknowledged must hold, and the rows must agree
 * with a recount.
 */
import { afterAll, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { openEngines, startCluster } from './support/cluster.ts';
import { openDatabaseClock } from './support/database-clock.ts';
import { APP } from './support/running-server.ts';
import { findBucketLeftovers, proveUsage } from './support/scaleout-recount.ts';
import { makeRandom, type SeededRandom } from './support/seeded-random.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';

const SPACE = 'races';
const DOMAINS = ['alpha', 'beta'] as const;
const CLOCK_OFFSETS_MS = [30_000, -30_000, 0];
const ROUNDS = 9;
const CLIENTS = 12;
const OPERATIONS_EACH = 14;
/** Longer than any request of this test takes. */
const MARGIN_MS = 10_000;

const engines = await openEngines();
const clock = await openDatabaseClock(engines.metadataUrl);
const cluster = await startCluster(engines, { clockOffsetsMs: CLOCK_OFFSETS_MS });
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

/** Leaves, parents that share them (some twice), and parents of those. */
function makeTrees(): readonly CanonicalNode[] {
  const leaves = Array.from({ length: 6 }, (_, seed) => makeNode(seededBytes(200 + seed * 9000, seed)));
  const pick = (nodes: readonly CanonicalNode[], index: number): string =>
    (nodes[index % nodes.length] as CanonicalNode).hash;
  const parents = Array.from({ length: 6 }, (_, index) =>
    makeNode(`parent ${index}`, {
      refs: [pick(leaves, index), pick(leaves, index + 1), pick(leaves, index)],
    }),
  );
  const tops = Array.from({ length: 3 }, (_, index) =>
    makeNode(`top ${index}`, { refs: [pick(parents, index), pick(parents, index * 2), pick(leaves, index)] }),
  );
  return [...leaves, ...parents, ...tops];
}

/** The acknowledged facts: only those of answered requests. */
class RaceFacts {
  /** ms by the database's clock */
  readonly leasedUntil = new Map<string, number>();
  readonly balances = new Map<string, number>();
  readonly revisions = new Map<string, number[]>(DOMAINS.map((domain) => [domain, []]));
  readonly counts = new Map<string, number>();
  deleted = 0;

  see(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  addLease(hash: string, leaseExpiresAt: number): void {
    this.leasedUntil.set(hash, Math.max(this.leasedUntil.get(hash) ?? 0, leaseExpiresAt));
  }

  balance(domain: string, hash: string): number {
    return this.balances.get(`${domain} ${hash}`) ?? 0;
  }

  addBalance(domain: string, hash: string, delta: number): void {
    this.balances.set(`${domain} ${hash}`, this.balance(domain, hash) + delta);
  }
}

interface Racer {
  readonly facts: RaceFacts;
  readonly random: SeededRandom;
  readonly nodes: readonly CanonicalNode[];
  readonly client: SpaceClient;
  readonly domain: string;
  nextId(): string;
}

async function publish(racer: Racer, node: CanonicalNode): Promise<void> {
  const { facts, client } = racer;
  const first = await client.lease(node.hash);
  expect(first.status).toBe(200);
  if (first.json.upload !== undefined) {
    // Sometimes twice at once; and another client may be first, with the same generation.
    const puts = Array.from({ length: racer.random.chance(0.5) ? 2 : 1 }, () =>
      client.put(first.json.upload, node.bytes),
    );
    const statuses = (await Promise.all(puts)).map(({ status }) => status);
    for (const status of statuses) facts.see(status === 200 ? 'put' : 'put refused');
    expect(statuses.filter((status) => ![200, 409, 412].includes(status))).toEqual([]);
    expect(statuses.filter((status) => status === 200).length).toBeLessThan(2);
  }
  noteLease(facts, node, first);
  noteLease(facts, node, await client.lease(node.hash, 60_000 + racer.random.below(30_000)));
}

function noteLease(
  facts: RaceFacts,
  node: CanonicalNode,
  { status, json }: { status: number; json: { state?: string; leaseExpiresAt?: number } },
): void {
  expect(status).toBe(200);
  expect(['ready', 'awaiting_upload', 'validated_awaiting_children']).toContain(json.state ?? '');
  facts.see(`lease ${json.state}`);
  if (json.leaseExpiresAt !== undefined) facts.addLease(node.hash, json.leaseExpiresAt);
}

async function commit({ facts, client, random, nodes, domain, nextId }: Racer): Promise<void> {
  const changes: Record<string, number> = {};
  for (let count = 1 + random.below(4); count > 0; count -= 1) {
    const { hash } = random.pick(nodes) as CanonicalNode;
    changes[hash] = random.chance(0.5) ? 1 : -1;
  }
  const requestId = nextId();
  const answers = await Promise.all(
    // Sometimes the same request from two clients at once: it counts once.
    Array.from({ length: random.chance(0.3) ? 2 : 1 }, () => client.commit(requestId, changes)),
  );
  const done = answers.filter(({ status }) => status === 200);
  for (const { status, json } of answers) {
    expect([200, 404, 409]).toContain(status);
    facts.see(`commit ${status}${json.idempotent === true ? ' again' : ''}`);
  }
  if (done.length === 0) return;
  expect(done.filter(({ json }) => json.idempotent === false)).toHaveLength(1);
  expect(new Set(done.map(({ json }) => json.revision)).size).toBe(1);
  facts.revisions.get(domain)?.push(done[0]?.json.revision);
  for (const [hash, delta] of Object.entries(changes)) facts.addBalance(domain, hash, delta);
}

async function collect({ facts, client, random }: Racer): Promise<void> {
  const maxNodes = 1 + random.below(8);
  const { status, json } = await client.gc(maxNodes);
  expect(status).toBe(200);
  expect(json.examined).toBeLessThanOrEqual(maxNodes);
  expect(json.deleted).toBeLessThanOrEqual(json.examined);
  facts.deleted += json.deleted;
}

async function read({ facts, client, random, nodes }: Racer): Promise<void> {
  const node = random.pick(nodes);
  if (node === undefined) return;
  const leasedUntil = facts.leasedUntil.get(node.hash) ?? 0;
  const answer = await client.content(node.hash);
  facts.see(`read ${answer.status}`);
  // Protected when it was sent, and still when it was answered.
  if (leasedUntil > clock.now() + MARGIN_MS) expect(`${node.hash} ${answer.status}`).toBe(`${node.hash} 200`);
  expect([200, 404]).toContain(answer.status);
  const bytes = await answer.bytes();
  if (answer.status === 200) expect(Buffer.compare(bytes, node.content)).toBe(0);
}

async function race(racer: Racer): Promise<void> {
  const { random, nodes } = racer;
  // At the beginning of a round many leases are over, so collections meet clients that want the nodes back.
  if (random.chance(0.5)) await collect(racer);
  for (let operation = 0; operation < OPERATIONS_EACH; operation += 1) {
    const node = random.pick(nodes) as CanonicalNode;
    const choice = random.below(10);
    if (choice < 3) await publish(racer, node);
    else if (choice < 4) noteLease(racer.facts, node, await racer.client.lease(node.hash, 1));
    else if (choice < 6) await commit(racer);
    else if (choice < 8) await collect(racer);
    else await read(racer);
  }
}

/** While all is quiet. */
async function check(facts: RaceFacts, nodes: readonly CanonicalNode[]): Promise<void> {
  const client = cluster.client(SPACE);
  const counted = await proveUsage(engines.metadataUrl, [APP, SPACE], client, () => clock.now());
  expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
  expect(counted.hashes(APP, SPACE, 'claimed')).toEqual([]);
  for (const node of nodes) {
    const held = DOMAINS.map((domain) => facts.balance(domain, node.hash));
    const { status, json } = await client.metadata(node.hash);
    const isHeld = held.some((balance) => balance !== 0);
    const isLeased = (facts.leasedUntil.get(node.hash) ?? 0) > clock.now() + MARGIN_MS;
    if (isHeld || isLeased) expect(`${node.hash} ${status}`).toBe(`${node.hash} 200`);
    if (status !== 200) continue;
    expect(json.state.rootRefCount).toBe(held.reduce((sum, balance) => sum + balance, 0));
    if (isLeased) {
      expect(json.state.leaseExpiresAt).toBeGreaterThanOrEqual(facts.leasedUntil.get(node.hash) ?? 0);
    }
  }
  for (const revisions of facts.revisions.values()) {
    expect(revisions.toSorted((a, b) => a - b)).toEqual(revisions.map((_, index) => index + 1));
  }
}

/** Removes most root refs, so that the next collections find work. */
async function letGo(facts: RaceFacts, racers: readonly Racer[]): Promise<void> {
  // Positive balances come last, because they may cover a negative one of another domain.
  const byDomain = racers.slice(0, DOMAINS.length);
  for (const sign of [-1, 1]) {
    for (const { client, domain, nodes, nextId } of byDomain) {
      for (const { hash } of nodes.slice(1)) {
        const held = facts.balance(domain, hash);
        if (Math.sign(held) !== sign) continue;
        const { status, json } = await client.commit(nextId(), { [hash]: -held });
        // A node that is not ready takes no positive delta, so a negative balance can remain.
        expect([200, 409]).toContain(status);
        if (status !== 200) continue;
        facts.revisions.get(domain)?.push(json.revision);
        facts.addBalance(domain, hash, -held);
      }
    }
  }
}

test(`${CLIENTS} clients of three processes race on shared trees`, async () => {
  const seed = Date.now() % 1_000_000;
  const facts = new RaceFacts();
  const nodes = makeTrees();
  let ids = 0;
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const racers = Array.from({ length: CLIENTS }, (_, index): Racer => {
        const domain = DOMAINS[index % DOMAINS.length] as string;
        const token = cluster.issuer.token(SPACE, {
          refDomain: domain,
          iat: Math.floor(Date.now() / 1000) - 60,
        });
        let turn = index;
        const findUrl = (): string => {
          turn += 1;
          return cluster.servers[turn % cluster.servers.length]?.process.url as string;
        };
        return {
          facts,
          nodes,
          domain,
          random: makeRandom(seed + round * CLIENTS + index),
          client: makeSpaceClient(findUrl, APP, SPACE, token),
          nextId: () => {
            ids += 1;
            return `request ${ids}`;
          },
        };
      });
      await Promise.all(racers.map(race));
      await check(facts, nodes);
      if (round % 2 === 0) await letGo(facts, racers);
      // Now and then most leases run out, and a collection meets them in the next round.
      await clock.advance(round % 2 === 0 ? 95_000 : 20_000);
    }
  } catch (error) {
    console.error(`races: seed ${seed}; ${JSON.stringify([...facts.counts])}; logs:\n${cluster.logs()}`);
    throw error;
  }
  // Situations that never came up prove nothing.
  for (const what of [
    'put',
    'put refused',
    'lease ready',
    'lease awaiting_upload',
    'commit 200',
    'commit 409',
  ]) {
    expect(`${what}: ${(facts.counts.get(what) ?? 0) > 3}`).toBe(`${what}: true`);
  }
  expect(facts.deleted).toBeGreaterThan(ROUNDS);
  expect(facts.counts.get('read 404') ?? 0).toBeGreaterThan(0);
}, 300_000);
