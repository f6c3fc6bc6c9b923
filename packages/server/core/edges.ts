/**
 * Edges: at every commit the childRefCount of a hash equals its occurrences in the refs of all waiting, ready, rotten and
 * claimed parents. A hash without a row has its edges as loose edges; a row made later starts with them (docs/api.md, leaseNode).
 */
import type { Hash } from '@holdfast/protocol';
import { refsToHashes } from '@holdfast/protocol';
import { assertCount } from './invariant.ts';
import type { NodeRow } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

export interface Children {
  /** distinct, in first-occurrence order, with how often each occurs */
  readonly counts: ReadonlyMap<Hash, number>;
  /** the children that have a row */
  readonly rows: ReadonlyMap<Hash, NodeRow>;
}

const NO_CHILDREN: Children = { counts: new Map(), rows: new Map() };

export async function findChildren(tx: SpaceTransaction, refs: readonly Uint8Array[]): Promise<Children> {
  if (refs.every(({ length }) => length === 0)) return NO_CHILDREN;
  const counts = new Map<Hash, number>();
  for (const each of refs) {
    for (const child of refsToHashes(each)) counts.set(child, (counts.get(child) ?? 0) + 1);
  }
  const rows = new Map<Hash, NodeRow>();
  for (const row of await tx.findNodes([...counts.keys()])) if (row !== undefined) rows.set(row.hash, row);
  return { counts, rows };
}

/** Every distinct child that is not ready, in first-occurrence order. */
export function listUnready({ counts, rows }: Children): Hash[] {
  return [...counts.keys()].filter((child) => rows.get(child)?.state !== 'ready');
}

/** Adds the edges of a row that is about to be made. Returns its childRefCount: its loose edges so far. */
export async function addEdges(tx: SpaceTransaction, hash: Hash, children: Children): Promise<number> {
  const absent = listAbsent(children);
  const [waiting = 0, ...loose] = await tx.findLooseEdges([hash, ...absent]);
  for (const [child, count] of children.counts) {
    const row = children.rows.get(child);
    if (row !== undefined) await tx.update('node', row, { ...row, childRefCount: row.childRefCount + count });
  }
  for (const [index, child] of absent.entries()) {
    await tx.setLooseEdges(child, (loose[index] ?? 0) + countOf(children, child));
  }
  if (waiting !== 0) await tx.setLooseEdges(hash, 0);
  return waiting;
}

/** Removes rows, as read here, with their edges; edges to them stay, as loose ones. Resolves with children that no edge points at. */
export async function removeNodesWithEdges(
  tx: SpaceTransaction,
  rows: readonly NodeRow[],
): Promise<readonly NodeRow[]> {
  const children = await findChildren(
    tx,
    rows.map(({ refs }) => refs),
  );
  const leaving = new Set(rows.map(({ hash }) => hash));
  await removeEdges(tx, children, leaving);
  for (const row of rows) {
    const left = row.childRefCount - (children.counts.get(row.hash) ?? 0);
    assertCount(left, 'childRefCount');
    await tx.delete('node', row);
    if (left > 0) await tx.setLooseEdges(row.hash, left);
  }
  return [...children.rows.values()].filter(
    ({ hash, childRefCount }) => !leaving.has(hash) && childRefCount === countOf(children, hash),
  );
}

/** Takes the edges from all children except those that are removed together with their parents. */
async function removeEdges(
  tx: SpaceTransaction,
  children: Children,
  leaving: ReadonlySet<Hash>,
): Promise<void> {
  for (const row of children.rows.values()) {
    if (leaving.has(row.hash)) continue;
    const childRefCount = row.childRefCount - countOf(children, row.hash);
    assertCount(childRefCount, 'childRefCount');
    await tx.update('node', row, { ...row, childRefCount });
  }
  const absent = listAbsent(children);
  if (absent.length === 0) return;
  const loose = await tx.findLooseEdges(absent);
  for (const [index, child] of absent.entries()) {
    const left = (loose[index] ?? 0) - countOf(children, child);
    assertCount(left, 'a count of loose edges');
    await tx.setLooseEdges(child, left);
  }
}

function listAbsent({ counts, rows }: Children): Hash[] {
  return [...counts.keys()].filter((child) => !rows.has(child));
}

function countOf({ counts }: Children, child: Hash): number {
  return counts.get(child) ?? 0;
}
