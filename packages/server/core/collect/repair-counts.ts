/** Corrects counts that a recount proved wrong. Writers keep the difference as it is. A count that changed since is left to the next. */
import { type Hash, NODE_HEADER_BYTES_MAX, NodeHeaderParser } from '@holdfast/protocol';
import type { KeptCounters } from '../inspection-ports.ts';
import type { NodeRow } from '../model.ts';
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

/** The bytes have the digest, so the row is wrong. */
export class RowContradicted extends Error {
  override readonly name = 'RowContradicted';
}

/** This many leading bytes of a node contain everything that its row repeats. */
export const headLength = ({ canonicalSize }: Pick<NodeRow, 'canonicalSize'>): number =>
  Math.min(canonicalSize, NODE_HEADER_BYTES_MAX);

/** `head`: the first bytes of a proven node */
export function parseHead(
  head: Uint8Array,
  canonicalSize: number,
): Pick<NodeRow, 'contentType' | 'size' | 'refs'> {
  const parser = new NodeHeaderParser();
  parser.push(head.subarray(0, NODE_HEADER_BYTES_MAX));
  const { contentType, size, refs } = parser.finish(canonicalSize);
  return { contentType, size, refs };
}

/** `head`: the first bytes of a node that has the digest of the row. Throws RowContradicted. */
export function compareRow(row: NodeRow, head: Uint8Array): void {
  const { contentType, size, refs } = parseHead(head, row.canonicalSize);
  const wrong = [
    contentType !== row.contentType && `its content type is ${contentType}, not ${row.contentType}`,
    size !== row.size && `its content has ${size} bytes, not ${row.size}`,
    Buffer.compare(refs, row.refs) !== 0 && 'its refs are others',
  ].filter((each) => each !== false);
  if (wrong.length > 0) throw new RowContradicted(`the row contradicts the bytes: ${wrong.join('; ')}`);
}
