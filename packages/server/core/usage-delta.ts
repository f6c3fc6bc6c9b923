/** What the change of one row adds to the counters of its Space (docs/api.md, getUsage). Pure. */
import type { NodeRow, SpaceCounters } from './model.ts';
import type { SpaceHoldings } from './tenancy-ports.ts';

/** All but leases, which end by themselves. */
export type UsageDelta = Omit<SpaceCounters, 'leasedNodeCount'>;

export const USAGE_NONE: UsageDelta = {
  nodeCount: 0,
  readyContentBytes: 0,
  readyStoredBytes: 0,
  waitingBytes: 0,
  notReadyNodeCount: 0,
};

/** What one row by itself contributes; the counters are the sum of this over all rows. */
export function usageOf(row: NodeRow | undefined): UsageDelta {
  if (row === undefined) return USAGE_NONE;
  const isReady = row.state === 'ready';
  return {
    nodeCount: 1,
    readyContentBytes: isReady ? row.size : 0,
    readyStoredBytes: isReady ? row.storedSize : 0,
    waitingBytes: row.state === 'waiting' ? row.canonicalSize : 0,
    notReadyNodeCount: isReady ? 0 : 1,
  };
}

export function addUsage(left: UsageDelta, right: UsageDelta, sign: 1 | -1 = 1): UsageDelta {
  return {
    nodeCount: left.nodeCount + sign * right.nodeCount,
    readyContentBytes: left.readyContentBytes + sign * right.readyContentBytes,
    readyStoredBytes: left.readyStoredBytes + sign * right.readyStoredBytes,
    waitingBytes: left.waitingBytes + sign * right.waitingBytes,
    notReadyNodeCount: left.notReadyNodeCount + sign * right.notReadyNodeCount,
  };
}

export function usageDelta(before: NodeRow | undefined, after: NodeRow | undefined): UsageDelta {
  // The hot path: a renewal changes no state, so it changes no counter.
  if (before !== undefined && after !== undefined && before.state === after.state) return USAGE_NONE;
  return addUsage(usageOf(after), usageOf(before), -1);
}

export function totalUsage(rows: readonly NodeRow[]): UsageDelta {
  return rows.reduce((sum, row) => addUsage(sum, usageOf(row)), USAGE_NONE);
}

export const NO_HOLDINGS: SpaceHoldings = { pendingBytes: 0, commitRows: 0 };

/** Whether a Space holds anything. Pure. */
export function isEmpty({ nodeCount }: SpaceCounters, { pendingBytes, commitRows }: SpaceHoldings): boolean {
  return nodeCount === 0 && pendingBytes === 0 && commitRows === 0;
}
