/** The facts that a server has acknowledged, which must stay true. */
import { expect } from 'bun:test';
import type { BulkClient } from './bulk-client.ts';
import type { CanonicalNode } from './canonical-node.ts';
import type { SpaceClient } from './space-client.ts';

/** One node as its client knows it. Only facts that were answered; what was in flight at a kill is not known. */
export interface NodeFact {
  readonly node: CanonicalNode;
  /** the PUT was answered 2xx, and no lease has been answered since */
  isPut: boolean;
  /** a lease was answered `ready` */
  isReady: boolean;
  /** the bytes of that PUT were wrong */
  isBad: boolean;
  leaseExpiresAt: number;
}

/** A pack whose PUT was answered 2xx, and whose lease was not answered. */
export interface PackFact {
  readonly id: string;
  /** in the order of the pack */
  readonly nodes: readonly CanonicalNode[];
  /** their records were spoilt */
  readonly bad: ReadonlySet<CanonicalNode>;
}

export interface PendingCommit {
  readonly requestId: string;
  readonly changes: Record<string, number>;
}

export class CrashFacts {
  readonly nodes = new Map<string, NodeFact>();
  readonly packs = new Set<PackFact>();
  readonly balances = new Map<string, number>();
  revision = 0;
  /** sent, not answered */
  pendingCommit: PendingCommit | undefined;
  lastCommit: (PendingCommit & { readonly revision: number }) | undefined;
  /** nodes collections have reported as deleted */
  deletedReported = 0;
  /** `maxNodes` of the passes that were not answered */
  deletedUnreported = 0;
  /** nodes that were ready and are found gone */
  goneSeen = 0;

  add(node: CanonicalNode): NodeFact {
    const fact: NodeFact = { node, isPut: false, isReady: false, isBad: false, leaseExpiresAt: 0 };
    this.nodes.set(node.hash, fact);
    return fact;
  }

  readyFacts(): NodeFact[] {
    return [...this.nodes.values()].filter(({ isReady }) => isReady);
  }

  applyCommit(commit: PendingCommit, revision: number): void {
    expect(revision).toBe(this.revision + 1);
    this.revision = revision;
    this.lastCommit = { ...commit, revision };
    for (const [hash, delta] of Object.entries(commit.changes)) {
      this.balances.set(hash, (this.balances.get(hash) ?? 0) + delta);
    }
  }

  /** Nothing may collect it: an unexpired lease, a root ref, or a parent that nothing may collect. */
  findProtected(now: number): Set<string> {
    const kept = new Set<string>();
    const keep = (hash: string): void => {
      if (kept.has(hash)) return;
      kept.add(hash);
      for (const child of this.nodes.get(hash)?.node.refs ?? []) keep(child);
    };
    for (const { node, leaseExpiresAt } of this.readyFacts()) {
      if (leaseExpiresAt > now || (this.balances.get(node.hash) ?? 0) > 0) keep(node.hash);
    }
    return kept;
  }
}

/** Notes the answer of the lease of a pack, which stays true. */
export function notePack(
  facts: CrashFacts,
  pack: PackFact,
  results: readonly { readonly state: string; readonly hash: string; readonly leaseExpiresAt: number }[],
): void {
  const { nodes, bad } = pack;
  expect(results.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
  for (const [index, { state, leaseExpiresAt }] of results.entries()) {
    const node = nodes[index] as CanonicalNode;
    expect(bad.has(node) ? ['rejected'] : ['ready', 'validated_awaiting_children']).toContain(state);
    if (state !== 'ready') continue;
    const fact = facts.add(node);
    fact.isReady = true;
    fact.leaseExpiresAt = leaseExpiresAt;
  }
  facts.packs.delete(pack);
}

/** The bytes are there: the next lease judges them. */
async function checkSentPacks(facts: CrashFacts, bulk: BulkClient): Promise<void> {
  for (const pack of [...facts.packs]) {
    const { status, json } = await bulk.lease(pack.id);
    expect(status).toBe(200);
    notePack(facts, pack, json.results);
  }
}

/** Settles what was in flight and checks every fact against the server that runs now. */
export async function checkFacts(
  facts: CrashFacts,
  client: SpaceClient,
  now: number,
  bulk?: BulkClient,
): Promise<void> {
  await settleCommit(facts, client);
  if (bulk !== undefined) await checkSentPacks(facts, bulk);
  for (const fact of [...facts.nodes.values()]) {
    if (fact.isPut) await checkAcknowledgedPut(facts, fact, client);
  }
  await checkReadyNodes(facts, client, now);
  await checkRoots(facts, client);
}

async function settleCommit(facts: CrashFacts, client: SpaceClient): Promise<void> {
  const { pendingCommit, lastCommit } = facts;
  if (lastCommit !== undefined) {
    const replay = await client.commit(lastCommit.requestId, lastCommit.changes);
    expect(replay).toEqual({
      status: 200,
      json: { success: true, idempotent: true, revision: lastCommit.revision },
    });
  }
  if (pendingCommit === undefined) return;
  facts.pendingCommit = undefined;
  const { status, json } = await client.commit(pendingCommit.requestId, pendingCommit.changes);
  // If it was not applied, it may now meet a collected node; if it was, its answer is permanent.
  if (status === 404 || status === 409) return;
  expect(status).toBe(200);
  facts.applyCommit(pendingCommit, json.revision);
}

/** The bytes are there: the next lease judges them and does not ask for them again. */
async function checkAcknowledgedPut(facts: CrashFacts, fact: NodeFact, client: SpaceClient): Promise<void> {
  const { status, json } = await client.lease(fact.node.hash);
  expect(status).toBe(200);
  fact.isPut = false;
  if (fact.isBad) {
    expect(json.rejection?.code ?? json.state).toBe('NODE_DIGEST_MISMATCH');
    facts.nodes.delete(fact.node.hash);
    return;
  }
  expect(['ready', 'validated_awaiting_children']).toContain(json.state);
  if (json.state !== 'ready') return;
  fact.isReady = true;
  fact.leaseExpiresAt = json.leaseExpiresAt;
}

async function checkReadyNodes(facts: CrashFacts, client: SpaceClient, now: number): Promise<void> {
  const kept = facts.findProtected(now);
  const ready = facts.readyFacts();
  const lanes = Array.from({ length: 8 }, async (_, lane) => {
    for (let index = lane; index < ready.length; index += 8) {
      const fact = ready[index] as NodeFact;
      await checkReadyNode(facts, fact, client, kept.has(fact.node.hash));
    }
  });
  await Promise.all(lanes);
  expect(facts.deletedReported).toBeLessThanOrEqual(facts.goneSeen);
  expect(facts.goneSeen).toBeLessThanOrEqual(facts.deletedReported + facts.deletedUnreported);
}

async function checkReadyNode(
  facts: CrashFacts,
  fact: NodeFact,
  client: SpaceClient,
  isProtected: boolean,
): Promise<void> {
  const { node } = fact;
  const { status, json } = await client.metadata(node.hash);
  if (status === 404 && !isProtected) {
    facts.goneSeen += 1;
    facts.nodes.delete(node.hash);
    return;
  }
  expect(status === 200 ? node.hash : `${node.hash} answers ${status}, protected: ${isProtected}`).toBe(
    node.hash,
  );
  const { metadata, state } = json;
  expect(metadata).toEqual({
    hash: node.hash,
    size: node.content.length,
    contentType: node.contentType,
    refs: node.refs,
  });
  expect(state.leaseExpiresAt).toBeGreaterThanOrEqual(fact.leaseExpiresAt);
  expect(state.rootRefCount).toBe(facts.balances.get(node.hash) ?? 0);
  const content = await client.content(node.hash);
  expect(content.status).toBe(200);
  expect(Buffer.compare(await content.bytes(), node.content)).toBe(0);
}

async function checkRoots(facts: CrashFacts, client: SpaceClient): Promise<void> {
  const items = new Map<string, number>();
  let query = '?limit=200';
  for (let pages = 0; pages < 100; pages += 1) {
    const { status, json } = await client.roots(query);
    expect(status).toBe(200);
    expect(json.revision).toBe(facts.revision);
    for (const { hash, refCount } of json.items) items.set(hash, refCount);
    if (json.nextCursor === null) break;
    query = `?limit=200&cursor=${encodeURIComponent(json.nextCursor)}`;
  }
  const expected = [...facts.balances].filter(([, balance]) => balance !== 0).sort();
  expect([...items].sort()).toEqual(expected);
}
