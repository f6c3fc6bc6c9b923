/** How rows get content that was proven right: by a lease of one node, or of a whole pack. Within one transaction. */
import { type Hash, refsToHashes } from '@holdfast/protocol';
import { addEdges, type Children, listUnready } from '../edges.ts';
import type { NodeRow } from '../model.ts';
import { type LeaseWindow, renewLease } from '../node-row.ts';
import type { SpaceTransaction } from '../ports.ts';
import { findNodesOrDamage, stateOf } from '../read/find-nodes.ts';

/** Bytes that are right and stored, with what they say of the node. Its content row is made by the caller. */
export type NewContent = Pick<
  NodeRow,
  'hash' | 'size' | 'canonicalSize' | 'contentType' | 'refs' | 'generation' | 'storage' | 'storedSize'
>;

export type Publication =
  | ({ readonly kind: 'ready'; readonly hash: Hash } & LeaseWindow)
  | { readonly kind: 'children'; readonly hash: Hash; readonly childHashes: Hash[] };

export const NEVER_LEASED: LeaseWindow = { leaseStartedAt: 0, leaseExpiresAt: 0 };

/** Why bytes are turned down that contradict a row. */
export const CONTRADICTION = {
  code: 'NODE_CONFLICT',
  message: 'what is stored for this hash contradicts the uploaded bytes; tell the operator of this server',
} as const;

/** Impossible unless a stored row is damaged: equal hashes mean equal bytes. */
export function contradicts(node: NodeRow, content: NewContent): boolean {
  return (
    node.size !== content.size ||
    node.canonicalSize !== content.canonicalSize ||
    node.contentType !== content.contentType ||
    Buffer.compare(node.refs, content.refs) !== 0
  );
}

/** The row of a hash that had none, if all children are ready. */
export function readyRow(content: NewContent, lease: LeaseWindow, childRefCount: number): NodeRow {
  return {
    hash: content.hash,
    state: 'ready',
    size: content.size,
    canonicalSize: content.canonicalSize,
    contentType: content.contentType,
    refs: content.refs,
    generation: content.generation,
    storage: content.storage,
    storedSize: content.storedSize,
    leaseStartedAt: lease.leaseStartedAt,
    leaseExpiresAt: lease.leaseExpiresAt,
    childRefCount,
    rootRefCount: 0,
    heldDomainCount: 0,
    waitingTouchedAt: 0,
    claimHeldUntil: 0,
  };
}

/** Makes the row of a hash that has none, with edges, counts and lease. `children` are those of `content`, as read before. */
export async function publishNode(
  tx: SpaceTransaction,
  content: NewContent,
  children: Children,
  durationMs: number,
): Promise<Publication> {
  const { hash } = content;
  const childHashes = listUnready(children);
  const isReady = childHashes.length === 0;
  const lease = isReady ? renewLease(NEVER_LEASED, tx.now, durationMs) : NEVER_LEASED;
  const row = readyRow(content, lease, await addEdges(tx, hash, children));
  await tx.insert('node', isReady ? row : { ...row, state: 'waiting', waitingTouchedAt: tx.now });
  return isReady ? { kind: 'ready', hash, ...lease } : { kind: 'children', hash, childHashes };
}

/** Heals a rotten row or revives a claimed one. Its edges, counts and root refs have stayed; only the bytes are new. */
export async function restoreNode(
  tx: SpaceTransaction,
  node: NodeRow,
  { generation, storage, storedSize }: NewContent,
  durationMs: number,
): Promise<LeaseWindow> {
  const lease = renewLease(node, tx.now, durationMs);
  const restored = { ...node, ...lease, generation, storage, storedSize, claimHeldUntil: 0 };
  await tx.update('node', node, { ...restored, state: 'ready' });
  return lease;
}

/** A waiting parent becomes ready only here: by a lease request of its own, with every child ready. */
export async function settleWaiting(
  tx: SpaceTransaction,
  node: NodeRow,
  durationMs: number,
): Promise<Publication> {
  const { hash } = node;
  // A child whose row is damaged is asked for, as one that is not there.
  const children = [...new Set(refsToHashes(node.refs))];
  const rows = await findNodesOrDamage(tx, children);
  const childHashes = children.filter((_, index) => stateOf(rows[index]) !== 'ready');
  if (childHashes.length > 0) {
    await tx.update('node', node, { ...node, waitingTouchedAt: tx.now });
    return { kind: 'children', hash, childHashes };
  }
  const lease = renewLease(node, tx.now, durationMs);
  await tx.update('node', node, { ...node, ...lease, state: 'ready', waitingTouchedAt: 0 });
  return { kind: 'ready', hash, ...lease };
}
