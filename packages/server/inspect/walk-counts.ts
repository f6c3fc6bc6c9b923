/** One walk over a Space that reports stored counts and counted references: rows, edges, counts of edges without rows, balances. */
import { type Hash, refsToHashes } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import { PAGE_ROWS, pagesOf } from '../core/batches.ts';
import type { InspectedNode, KeptCounters, SpaceSnapshot } from '../core/inspection-ports.ts';
import { addUsage, USAGE_NONE, type UsageDelta, usageOf } from '../core/usage-delta.ts';

export interface KeptCounts {
  readonly childRefCount: number;
  readonly rootRefCount: number;
  readonly heldDomainCount: number;
}

export interface CountTaker {
  addRow(hash: Hash, kept: KeptCounts): void;
  /** A reference of `parent` to `hash`. */
  addEdge(hash: Hash, parent: Hash, isParentReady: boolean): void;
  /** The stored count of references to a hash without a row. */
  addLoose(hash: Hash, count: number): void;
  addBalance(hash: Hash, balance: number): void;
  /** The walk resumes when this resolves. */
  settle(): Awaitable<void>;
}

export interface CountWalk {
  readonly taker: CountTaker;
  /** selects the hashes to report */
  readonly isMine: (hash: Hash) => boolean;
  /** called with the number of rows read so far */
  readonly onRows: (rows: number) => void;
}

/** Resolves with the usage that all rows add up to, and why a row of a node cannot be read. */
export async function walkCounts(
  snapshot: SpaceSnapshot,
  { taker, isMine, onRows }: CountWalk,
): Promise<{ readonly counters: KeptCounters; readonly unreadable: string | undefined }> {
  let usage: UsageDelta = USAGE_NONE;
  let leasedCount = 0;
  let rows = 0;
  const take = ({ row, isLeaseCounted }: InspectedNode): void => {
    usage = addUsage(usage, usageOf(row));
    leasedCount += Number(isLeaseCounted);
    if (isMine(row.hash)) taker.addRow(row.hash, row);
    if (row.refs.length === 0) return;
    for (const child of refsToHashes(row.refs)) {
      if (isMine(child)) taker.addEdge(child, row.hash, row.state === 'ready');
    }
  };
  let unreadable: string | undefined;
  let after: Hash | undefined;
  do {
    const page = await snapshot.readNodesAround(after, PAGE_ROWS);
    page.nodes.forEach(take);
    for (const { node, reason } of page.unreadable) {
      if (node === undefined) unreadable ??= reason;
      else take(node);
    }
    rows += page.nodes.length;
    onRows(rows);
    await taker.settle();
    after = page.next;
  } while (after !== undefined);
  for await (const page of pagesOf(
    (after, limit) => snapshot.readLooseEdges(after, limit),
    ({ hash }) => hash,
  )) {
    for (const { hash, count } of page) if (isMine(hash)) taker.addLoose(hash, count);
    await taker.settle();
  }
  for (const { domain } of await snapshot.readDomains()) {
    for await (const page of pagesOf(
      (after, limit) => snapshot.readBalances(domain, after, limit),
      ({ hash }) => hash,
    )) {
      for (const { hash, balance } of page) if (isMine(hash)) taker.addBalance(hash, balance);
      await taker.settle();
    }
  }
  return { counters: { ...usage, leasedCount }, unreadable };
}
