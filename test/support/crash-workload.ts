/**
 * Clients at work on one Space until the server goes away: uploads of leaves and parents, renewals, commits, collections.
 * Each records what was answered in `CrashFacts`; what was in flight when the connection broke stays unknown.
 */
import { expect } from 'bun:test';
import { makeNode, seededBytes } from './canonical-node.ts';
import type { CrashFacts, NodeFact } from './crash-facts.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { SpaceClient } from './space-client.ts';

export interface Workload {
  readonly facts: CrashFacts;
  readonly client: SpaceClient;
  readonly random: SeededRandom;
  /** the server's clock, ms */
  now(): number;
  isStopped(): boolean;
  /** names new content; never repeats over a whole test */
  nextNumber(): number;
}

const UPLOADERS = 4;
const LEASE_MARGIN_MS = 10_000;
const SMALL_BYTES_MAX = 3000;
const LARGE_BYTES_MAX = 300_000;

/** Resolves when every client has stopped, which each does when the server is gone or `isStopped` says so. */
export async function work(workload: Workload): Promise<void> {
  const clients = [...Array.from({ length: UPLOADERS }, () => upload), commit, collect, renew];
  await Promise.all(clients.map((step) => repeat(workload, step)));
}

async function repeat(workload: Workload, step: (workload: Workload) => Promise<void>): Promise<void> {
  while (!workload.isStopped()) {
    try {
      await step(workload);
    } catch (error) {
      if (isConnectionError(error)) return;
      throw error;
    }
  }
}

/** Thrown by fetch when the peer is gone; an assertion or anything else is a failure of the test. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: string };
  return /^(?:ConnectionRefused|ConnectionClosed|ECONNRESET|ECONNREFUSED|EPIPE|FailedToOpenSocket)$/.test(
    code ?? '',
  );
}

async function upload(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const fact = facts.add(makeNextNode(workload));
  const first = await client.lease(fact.node.hash);
  expect(first.status).toBe(200);
  expect(first.json.state).toBe('awaiting_upload');
  const isBad = random.chance(0.1);
  const bytes = isBad ? fact.node.bytes.slice(1) : fact.node.bytes;
  const answer = await client.put(first.json.upload, bytes);
  expect(answer.status).toBe(200);
  fact.isBad = isBad;
  fact.isPut = true;
  if (random.chance(0.2)) return;
  const { status, json } = await client.lease(fact.node.hash);
  expect(status).toBe(200);
  fact.isPut = false;
  if (isBad) {
    expect(json.rejection?.code ?? json.state).toBe('NODE_DIGEST_MISMATCH');
    facts.nodes.delete(fact.node.hash);
    return;
  }
  expect(['ready', 'validated_awaiting_children']).toContain(json.state);
  if (json.state === 'ready') noteReady(fact, json);
}

function makeNextNode({ facts, random, nextNumber }: Workload) {
  const number = nextNumber();
  const size = random.chance(0.3) ? random.below(LARGE_BYTES_MAX) : random.below(SMALL_BYTES_MAX);
  const content = Buffer.concat([Buffer.from(`${number} `), seededBytes(size, number)]);
  if (random.chance(0.6)) return makeNode(content);
  const ready = facts.readyFacts();
  const children = Array.from({ length: 1 + random.below(3) }, () => random.pick(ready)?.node.hash);
  const refs = children.filter((hash) => hash !== undefined);
  return makeNode(content, { refs: random.chance(0.5) ? [...refs, ...refs] : refs });
}

function noteReady(fact: NodeFact, json: { leaseExpiresAt: number }): void {
  fact.isReady = true;
  fact.leaseExpiresAt = Math.max(fact.leaseExpiresAt, json.leaseExpiresAt);
}

/** Renews a node whose lease still runs: it cannot have been collected, so the answer must be ready. */
async function renew(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const leased = facts
    .readyFacts()
    .filter(({ leaseExpiresAt }) => leaseExpiresAt > workload.now() + LEASE_MARGIN_MS);
  const fact = random.pick(leased);
  if (fact === undefined) return Bun.sleep(2);
  const { status, json } = await client.lease(fact.node.hash, 60_000 + random.below(60_000));
  expect(status).toBe(200);
  expect(json.state).toBe('ready');
  expect(json.leaseExpiresAt).toBeGreaterThanOrEqual(fact.leaseExpiresAt);
  noteReady(fact, json);
}

/** Roots and releases nodes that nothing may collect meanwhile, so every commit must succeed. */
async function commit(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const isSafe = ({ node, leaseExpiresAt }: NodeFact): boolean =>
    leaseExpiresAt > workload.now() + LEASE_MARGIN_MS || (facts.balances.get(node.hash) ?? 0) > 0;
  const safe = facts.readyFacts().filter(isSafe);
  const changes: Record<string, number> = {};
  for (let count = 1 + random.below(5); count > 0; count -= 1) {
    const hash = random.pick(safe)?.node.hash;
    if (hash === undefined) continue;
    const balance = facts.balances.get(hash) ?? 0;
    changes[hash] = balance > 0 && random.chance(0.6) ? -balance : 1 + random.below(3);
  }
  if (Object.keys(changes).length === 0) return Bun.sleep(2);
  const pending = { requestId: `request-${workload.nextNumber()}`, changes };
  facts.pendingCommit = pending;
  const { status, json } = await client.commit(pending.requestId, changes);
  expect({ status, idempotent: json.idempotent }).toEqual({ status: 200, idempotent: false });
  facts.pendingCommit = undefined;
  facts.applyCommit(pending, json.revision);
}

async function collect(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const maxNodes = 1 + random.below(20);
  facts.deletedUnreported += maxNodes;
  const { status, json } = await client.gc(maxNodes);
  expect(status).toBe(200);
  facts.deletedUnreported -= maxNodes;
  facts.deletedReported += json.deleted;
  await Bun.sleep(random.below(30));
}
