/** The counters of a Space as statements give them. */
import type { SpaceCounters } from '../../core/model.ts';
import type { SpaceHoldings } from '../../core/tenancy-ports.ts';
import type { SqlRow } from './wire/sql-values.ts';

export function totalsFromSql(row: SqlRow): Omit<SpaceCounters, 'leasedNodeCount'> {
  return {
    nodeCount: row.node_count as number,
    readyContentBytes: row.ready_content_bytes as number,
    readyStoredBytes: row.ready_stored_bytes as number,
    waitingBytes: row.waiting_bytes as number,
    notReadyNodeCount: row.not_ready_node_count as number,
  };
}

export function holdingsFromSql(row: SqlRow): SpaceHoldings {
  return { pendingBytes: row.pending_bytes as number, commitRows: row.commit_rows as number };
}

/** Leases that have ended are still in the counter until upkeep takes them out. */
export function countersFromSql(row: SqlRow): SpaceCounters {
  const leasedNodeCount =
    (row.leased_count as number) - (row.ended_count as number) + (row.resumed_count as number);
  return { ...totalsFromSql(row), leasedNodeCount };
}
