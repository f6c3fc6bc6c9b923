/**
 * Edges: at every commit the childRefCount of a hash equals its occurrences in the refs of all waiting, ready, rotten and
 * claimed parents. A hash without a row has its edges as loose edges; a row made later starts with them (contract section 5).
 */
import type { Hash } from '@holdfast/protocol';
import { refsToHashes } from '@holdfast/protocol';
import { assertInvariant } from './invariant.ts';
import type { NodeRow } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

/** Distinct children in first-occurrence order, with how often each occurs. */
function countChildren(refs: Uint8Array): ReadonlyMap<Hash, number> {
  const counts = new Map<Hash, number>();
  for (const child of refsToHashes(refs)) counts.set(child, (counts.get(child) ?? 0) + 1);
  return counts;
}

/** The children's rows, by hash; absent ones are left out. */
async function findChildren(tx: SpaceTransaction, children: readonly Hash[]): Promise<Map<Hash, NodeRow>> {
  const rows = await tx.findNodes(children);
  const byHash = new Map<Hash, NodeRow>();
  for (const row of rows) if (row !== undefined) byHash.set(row.hash, row);
  return byHash;
}

/** Every distinct child that is not ready, in first-occurrence order. */
export async function findUnreadyChildren(tx: SpaceTransaction, refs: Uint8Array): Promise<Hash[]> {
  if (refs.length === 0) return [];
  const distinct = [...countChildren(refs).keys()];
  const rows = await findChildren(tx, distinct);
  return distinct.filter((child) => rows.get(child)?.state !== 'ready');
}

/** Adds (`sign` 1) or takes away (-1) one parent's edges. */
export async function changeEdges(tx: SpaceTransaction, refs: Uint8Array, sign: 1 | -1): Promise<void> {
  if (refs.length === 0) return;
  const counts = countChildren(refs);
  const rows = await findChildren(tx, [...counts.keys()]);
  for (const [child, count] of counts) {
    const row = rows.get(child);
    if (row !== undefined) {
      const childRefCount = row.childRefCount + sign * count;
      assertInvariant(childRefCount >= 0, 'childRefCount is never negative');
      await tx.updateNode(row, { ...row, childRefCount });
    } else {
      const loose = (await tx.findLooseEdges(child)) + sign * count;
      assertInvariant(loose >= 0, 'loose edges are never negative');
      await tx.setLooseEdges(child, loose);
    }
  }
}

/** The edges that were waiting for this hash to get a row. */
export async function takeLooseEdges(tx: SpaceTransaction, hash: Hash): Promise<number> {
  const count = await tx.findLooseEdges(hash);
  if (count !== 0) await tx.setLooseEdges(hash, 0);
  return count;
}

/** Removes a row with its edges; edges that point at it stay, as loose ones. */
export async function removeNodeWithEdges(tx: SpaceTransaction, row: NodeRow): Promise<void> {
  await changeEdges(tx, row.refs, -1);
  await tx.deleteNode(row);
  if (row.childRefCount > 0) await tx.setLooseEdges(row.hash, row.childRefCount);
}
