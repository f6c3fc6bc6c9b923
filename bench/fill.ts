/**
 * Fills a data folder with many nodes through the engine's own transactions, so that every counter, index and balance is
 * kept by the code under test, and counts them again afterwards with SQL of its own.
 */
import { Database } from 'bun:sqlite';
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { NodeRow, Space } from '../packages/server/core/model.ts';
import type { MetadataStore, SpaceTransaction } from '../packages/server/core/ports.ts';
import { openEmbeddedEngine } from '../packages/server/deployment/test/embedded-engine-fixture.ts';
import { IntegrityBuilder } from '../packages/server/engine/disk/block-integrity.ts';
import { APP, REF_DOMAIN } from './holdfast.ts';
import { createNodeSource } from './load/canonical-nodes.ts';

const NODES_PER_TRANSACTION = 1000;
const CONTENT_BYTES = 64;
const HOUR_MS = 3_600_000;
/** Unexpired leases end evenly over this time, beginning now: some do while the row is measured. */
const LEASES_END_WITHIN_MS = 12 * HOUR_MS;

export interface FilledSpace {
  /** nodes held by a root, with an unexpired lease */
  readonly held: readonly string[];
}

/**
 * `count` nodes in the Space: even ones are held by a root ref and leased, odd ones are free with a lease that ended, so a
 * collection may take them. Returns up to 5000 held hashes of the first, spread over all.
 */
export async function fillSpaces(
  dataFolder: string,
  spaceIds: readonly string[],
  count: number,
): Promise<FilledSpace> {
  const clock = { now: () => Date.now() };
  const fail = (error: Error): never => {
    throw error;
  };
  const engine = await openEmbeddedEngine({ dataDir: dataFolder, workers: 1, clock, onFatal: fail });
  const held: string[][] = [];
  try {
    for (const spaceId of spaceIds)
      held.push(await fillSpace(engine.metadata, { appId: APP, spaceId }, count));
  } finally {
    await engine.close();
  }
  recount(join(dataFolder, 'holdfast.db'), spaceIds.length * count);
  return { held: held[0] ?? [] };
}

async function fillSpace(metadata: MetadataStore, space: Space, count: number): Promise<string[]> {
  const next = createNodeSource(CONTENT_BYTES, space.spaceId);
  const held: string[] = [];
  const keepEvery = Math.max(1, Math.floor(count / 2 / 5000));
  for (let filled = 0, revision = 1; filled < count; revision++) {
    const size = Math.min(NODES_PER_TRANSACTION, count - filled);
    const rows = Array.from({ length: size }, (_, index) => createNode(next(), filled + index, count));
    const roots = rows.filter((row) => row.node.rootRefCount === 1).map((row) => row.node.hash);
    await metadata.transact(space, (tx) => insertAll(tx, rows, roots, revision));
    held.push(...roots.filter((_, index) => (filled / 2 + index) % keepEvery === 0));
    filled += size;
  }
  return held;
}

interface FilledNode {
  readonly node: NodeRow;
  readonly bytes: Uint8Array;
  readonly integrity: Uint8Array;
}

function createNode(source: { hash: string; bytes: Uint8Array }, index: number, count: number): FilledNode {
  const now = Date.now();
  const isHeld = index % 2 === 0;
  const bytes = source.bytes.slice();
  const integrity = new IntegrityBuilder();
  integrity.push(bytes);
  const leaseExpiresAt = isHeld
    ? now + Math.floor((index / count) * LEASES_END_WITHIN_MS)
    : now - HOUR_MS - (count - index);
  const node: NodeRow = {
    hash: source.hash,
    state: 'ready',
    size: CONTENT_BYTES,
    canonicalSize: bytes.length,
    contentType: 'application/octet-stream',
    refs: new Uint8Array(0),
    generation: now.toString(16).padStart(12, '0') + randomBytes(10).toString('hex'),
    storage: 'inline',
    storedSize: bytes.length,
    leaseStartedAt: now - 2 * HOUR_MS,
    leaseExpiresAt,
    childRefCount: 0,
    rootRefCount: isHeld ? 1 : 0,
    heldDomainCount: isHeld ? 1 : 0,
    waitingTouchedAt: 0,
    claimHeldUntil: 0,
  };
  return { node, bytes, integrity: integrity.finish() };
}

async function insertAll(
  tx: SpaceTransaction,
  rows: readonly FilledNode[],
  roots: readonly string[],
  revision: number,
): Promise<void> {
  for (const { node, bytes, integrity } of rows) {
    const { generation, canonicalSize } = node;
    await tx.insert('content', { generation, canonicalSize, integrity, inlineBytes: bytes, urlExpiresAt: 0 });
    await tx.insert('node', node);
  }
  const requestId = `fill-${revision}`;
  const payloadDigest = new Uint8Array(createHash('sha256').update(requestId).digest());
  const changes = [...roots].sort().map((hash) => ({ hash, before: 0, after: 1 }));
  await tx.insertRootRefCommit(REF_DOMAIN, { requestId, payloadDigest, revision }, changes);
}

/** Throws when a counter, a flag or a balance differs from what the rows say. */
function recount(path: string, expectedNodes: number): void {
  const database = new Database(path, { readonly: true });
  try {
    const counted = database
      .query<{ nodes: number; wrong: number; balances: number; held: number }, []>(
        `SELECT
          (SELECT count(*) FROM nodes) AS nodes,
          (SELECT count(*) FROM balances) AS balances,
          (SELECT count(*) FROM nodes WHERE root_ref_count = 1 AND held_domain_count = 1 AND collectable = 0) AS held,
          (SELECT count(*) FROM spaces JOIN (
            SELECT space, count(*) AS n, sum(size) AS content, sum(canonical_size) AS stored FROM nodes GROUP BY space
          ) AS rows ON rows.space = spaces.id
          WHERE (node_count, ready_content_bytes, ready_stored_bytes, waiting_bytes, not_ready_node_count)
            <> (rows.n, rows.content, rows.stored, 0, 0)
            OR leased_count <> (SELECT count(*) FROM nodes WHERE space = spaces.id AND lease_expires_at > lease_watermark)
          ) AS wrong`,
      )
      .get();
    const isRight =
      counted?.nodes === expectedNodes && counted.wrong === 0 && counted.balances === counted.held;
    if (!isRight) throw new Error(`The filled store does not count up: ${JSON.stringify(counted)}`);
  } finally {
    database.close();
  }
}
