/** Corrects counts that a recount proved wrong. Writers keep the difference as it is. A count that changed since is left to the next. */
import type { Hash } from '@holdfast/protocol';
import type { KeptCounters } from '../inspection-ports.ts';
import type { SpaceTransaction } from '../ports.ts';

interface NodeCounts {
  readonly childRefCount: number;
  readonly rootRefCount: number;
  readonly heldDomainCount: number;
}

export interface CountRepairs {
  readonly nodes: readonly { readonly hash: Hash; readonly kept: NodeCounts; readonly counted: NodeCounts }[];
  readonly looseEdges: readonly { readonly hash: Hash; readonly kept: number; readonly counted: number }[];
  /** counted minus kept; undefined: they are right */
  readonly counters: KeptCounters | undefined;
}

export async function repairCounts(
  tx: SpaceTransaction,
  { nodes, looseEdges, counters }: CountRepairs,
): Promise<void> {
  const rows = await tx.findNodes(nodes.map(({ hash }) => hash));
  for (const [index, { kept, counted }] of nodes.entries()) {
    const row = rows[index];
    if (row === undefined || !hasCounts(row, kept)) continue;
    await tx.update('node', row, { ...row, ...counted });
  }
  const loose = await tx.findLooseEdges(looseEdges.map(({ hash }) => hash));
  for (const [index, { hash, kept, counted }] of looseEdges.entries()) {
    if (loose[index] === kept) await tx.setLooseEdges(hash, counted);
  }
  if (counters !== undefined) await tx.correctCounters(counters);
}

function hasCounts(row: NodeCounts, counts: NodeCounts): boolean {
  return (
    row.childRefCount === counts.childRefCount &&
    row.rootRefCount === counts.rootRefCount &&
    row.heldDomainCount === counts.heldDomainCount
  );
}
