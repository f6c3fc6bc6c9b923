/**
 * Clients at work on one Space: uploads of leaves and parents, renewals, commits, collections. Each records what was
 * answered in `CrashFacts`; what was in flight when the connection broke stays unknown. Over one server they end when it
 * goes away; over several (`outlivesServers`) they go on, also past answers that say to come again.
 */
import { expect } from 'bun:test';
import type { BulkClient } from './bulk-client.ts';
import { makeNode, seededBytes } from './canonical-node.ts';
import {
  type CrashFacts,
  type NodeFact,
  notePack,
  type PackFact,
  type PendingCommit,
} from './crash-facts.ts';
import { makePack, packed, plain } from './planted-pack.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { SpaceClient } from './space-client.ts';

export interface Workload {
  readonly facts: CrashFacts;
  readonly client: SpaceClient;
  /** packs are sent too */
  readonly bulk?: BulkClient;
  readonly random: SeededRandom;
  /** the server's clock, ms */
  now(): number;
  isStopped(): boolean;
  /** names new content; never repeats over a whole test */
  nextNumber(): number;
  /** a broken connection, a 503, 507 or 429 is not the end: the next request may go to another server */
  readonly outlivesServers?: boolean;
}

const UPLOADERS = 4;
/** More than any request takes. */
const LEASE_MARGIN_MS = 10_000;
const OUTAGE_LEASE_MARGIN_MS = 40_000;
const OUTAGE_PAUSE_MS = 20;
const SMALL_BYTES_MAX = 3000;
const LARGE_BYTES_MAX = 300_000;
const PACK_NODES_MAX = 30;
/** More than one transaction publishes. */
const LARGE_PACK_NODES = 600;

/** Resolves when every client has stopped, which each does when the server is gone or `isStopped` says so. */
export async function work(workload: Workload): Promise<void> {
  const readers = workload.outlivesServers === true ? [read] : [];
  const packers = workload.bulk === undefined ? [] : [uploadPack, uploadPack];
  const uploaders = Array.from({ length: UPLOADERS }, () => upload);
  const clients = [...uploaders, ...packers, commit, collect, renew, ...readers];
  await Promise.all(clients.map((step) => repeat(workload, step)));
}

async function repeat(workload: Workload, step: (workload: Workload) => Promise<void>): Promise<void> {
  while (!workload.isStopped()) {
    try {
      await step(workload);
    } catch (error) {
      const isUndecided = error instanceof NothingDecided || isConnectionError(error);
      if (!isUndecided) throw error;
      if (workload.outlivesServers !== true) return;
      await Bun.sleep(OUTAGE_PAUSE_MS);
    }
  }
}

/** The server said to come again: whether the request took effect is not known. */
class NothingDecided extends Error {
  override readonly name = 'NothingDecided';
}

function expectDecided(workload: Workload, { status }: { readonly status: number }): void {
  if (workload.outlivesServers === true && [429, 503, 507].includes(status)) throw new NothingDecided();
  expect(status).toBe(200);
}

function marginOf(workload: Workload): number {
  return workload.outlivesServers === true ? OUTAGE_LEASE_MARGIN_MS : LEASE_MARGIN_MS;
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
  expectDecided(workload, first);
  expect(first.json.state).toBe('awaiting_upload');
  const isBad = random.chance(0.1);
  const bytes = isBad ? fact.node.bytes.slice(1) : fact.node.bytes;
  expectDecided(workload, await client.put(first.json.upload, bytes));
  fact.isBad = isBad;
  fact.isPut = true;
  if (random.chance(0.2)) return;
  const answer = await client.lease(fact.node.hash);
  expectDecided(workload, answer);
  const { json } = answer;
  fact.isPut = false;
  if (isBad) {
    expect(json.rejection?.code ?? json.state).toBe('NODE_DIGEST_MISMATCH');
    facts.nodes.delete(fact.node.hash);
    return;
  }
  expect(['ready', 'validated_awaiting_children']).toContain(json.state);
  if (json.state === 'ready') noteReady(fact, json);
}

/** A pack in any order: new nodes, some of them parents of others, some of their records bad. */
async function uploadPack(workload: Workload): Promise<void> {
  const { facts, random, bulk } = workload;
  if (bulk === undefined) return;
  const isLarge = random.chance(0.1);
  const count = isLarge ? LARGE_PACK_NODES : 1 + random.below(PACK_NODES_MAX);
  const nodes = Array.from({ length: count }, () =>
    isLarge ? makeNode(`${workload.nextNumber()} of many`) : makeNextNode(workload),
  );
  const last = nodes.at(-1);
  if (last !== undefined) nodes.unshift(makeNode(`${workload.nextNumber()} parent`, { refs: [last.hash] }));
  const opened = await bulk.leases(
    nodes.map(({ hash }) => hash),
    true,
  );
  expectDecided(workload, opened);
  expect(new Set(opened.json.results.map(({ state }: { state: string }) => state))).toEqual(
    new Set(['absent']),
  );
  const bad = new Set(nodes.slice(1, -1).filter(() => random.chance(0.05)));
  const records = nodes.map((node) => {
    if (bad.has(node)) return { ...plain(node), stored: node.bytes.map((byte) => byte ^ 1) };
    return random.chance(0.5) ? packed(node) : plain(node);
  });
  const pack: PackFact = { id: opened.json.pack.id, nodes, bad };
  expectDecided(workload, await bulk.put(opened.json.pack, makePack(records)));
  facts.packs.add(pack);
  if (random.chance(0.2)) return;
  const answer = await bulk.lease(pack.id);
  expectDecided(workload, answer);
  notePack(facts, pack, answer.json.results);
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
    .filter(({ leaseExpiresAt }) => leaseExpiresAt > workload.now() + marginOf(workload));
  const fact = random.pick(leased);
  if (fact === undefined) return Bun.sleep(2);
  const answer = await client.lease(fact.node.hash, 60_000 + random.below(60_000));
  expectDecided(workload, answer);
  const { json } = answer;
  expect(json.state).toBe('ready');
  expect(json.leaseExpiresAt).toBeGreaterThanOrEqual(fact.leaseExpiresAt);
  noteReady(fact, json);
}

/**
 * Roots and releases nodes that nothing may collect meanwhile, so every commit must succeed. One that was not answered is
 * sent again as it was, before any other.
 */
async function commit(workload: Workload): Promise<void> {
  const { facts, client } = workload;
  const isAgain = facts.pendingCommit !== undefined;
  const pending = facts.pendingCommit ?? makeNextCommit(workload);
  if (pending === undefined) return Bun.sleep(2);
  facts.pendingCommit = pending;
  const answer = await client.commit(pending.requestId, pending.changes);
  // If it was not applied, it may by now meet a collected node.
  const isOvertaken = isAgain && (answer.status === 404 || answer.status === 409);
  if (!isOvertaken) {
    expectDecided(workload, answer);
    if (!isAgain) expect(answer.json.idempotent).toBe(false);
    facts.applyCommit(pending, answer.json.revision);
  }
  facts.pendingCommit = undefined;
}

function makeNextCommit(workload: Workload): PendingCommit | undefined {
  const { facts, random } = workload;
  const isSafe = ({ node, leaseExpiresAt }: NodeFact): boolean =>
    leaseExpiresAt > workload.now() + marginOf(workload) || (facts.balances.get(node.hash) ?? 0) > 0;
  const safe = facts.readyFacts().filter(isSafe);
  const changes: Record<string, number> = {};
  for (let count = 1 + random.below(5); count > 0; count -= 1) {
    const hash = random.pick(safe)?.node.hash;
    if (hash === undefined) continue;
    const balance = facts.balances.get(hash) ?? 0;
    changes[hash] = balance > 0 && random.chance(0.6) ? -balance : 1 + random.below(3);
  }
  if (Object.keys(changes).length === 0) return undefined;
  return { requestId: `request-${workload.nextNumber()}`, changes };
}

async function collect(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const maxNodes = 1 + random.below(20);
  facts.deletedUnreported += maxNodes;
  const answer = await client.gc(maxNodes);
  expectDecided(workload, answer);
  facts.deletedUnreported -= maxNodes;
  facts.deletedReported += answer.json.deleted;
  await Bun.sleep(random.below(30));
}

/** Reads a node whose lease still runs, whole or in part: what looks complete must be right. */
async function read(workload: Workload): Promise<void> {
  const { facts, client, random } = workload;
  const leased = facts
    .readyFacts()
    .filter(({ leaseExpiresAt }) => leaseExpiresAt > workload.now() + marginOf(workload));
  const node = random.pick(leased)?.node;
  if (node === undefined || node.content.length === 0) return Bun.sleep(2);
  const start = random.chance(0.5) ? 0 : random.below(node.content.length);
  const answer = await client.content(node.hash, start === 0 ? undefined : `bytes=${start}-`);
  if (answer.status !== 206) expectDecided(workload, answer);
  expect(Buffer.compare(await answer.bytes(), node.content.subarray(start))).toBe(0);
}
