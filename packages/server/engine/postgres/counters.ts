/** The counters of a Space as statements give them. */
import type { SpaceCounters, SpaceKey } from '../../core/model.ts';
import { usageFromSql } from '../rows/codecs.ts';
import { RowDamaged } from './damage.ts';
import { COUNTER_COLUMNS, countersSum } from './row-sums.ts';
import type { SqlRow } from './wire/wire-messages.ts';

/** Leases that have ended are still in the counter until upkeep takes them out. */
export function countersFromSql(row: SqlRow): SpaceCounters {
  const leasedNodeCount =
    (row.leased_count as number) - (row.ended_count as number) + (row.resumed_count as number);
  return { ...usageFromSql(row), leasedNodeCount };
}

/** The sum of slots that prove themselves. `rows`: one for each slot, or one without a slot. @throws RowDamaged */
export function sumSlots(space: SpaceKey, rows: readonly SqlRow[]): SqlRow {
  const sums: Record<string, unknown> = { ...rows[0] };
  for (const column of COUNTER_COLUMNS) sums[column] = 0;
  for (const row of rows) {
    if (row.slot === null) continue;
    const values = COUNTER_COLUMNS.map((column) => row[column] as number);
    const sum = countersSum(space, row.slot as number, values, row.lease_watermark as number);
    if (row.row_sum !== null && row.row_sum !== sum) throw new RowDamaged('usage_counters', 'the Space');
    for (const column of COUNTER_COLUMNS) sums[column] = (sums[column] as number) + (row[column] as number);
  }
  return sums as SqlRow;
}
