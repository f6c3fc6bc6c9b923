/** The objects that earlier walks found without a record (core/stray-watch.ts). */
import type { Generation } from '../../core/model.ts';
import { isSum } from '../../core/rows/row-sum.ts';
import { tombstoneSum } from '../../core/rows/row-sums.ts';
import { hexToBytes } from './rows.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

/** When each was noted first, ms. */
export function findTombstones(
  { findTombstone }: ReadStatements,
  generations: readonly Generation[],
): ReadonlyMap<Generation, number> {
  const found = new Map<Generation, number>();
  for (const generation of generations) {
    const row = findTombstone.get(hexToBytes(generation));
    // A damaged one proves no age: its object is kept.
    if (row !== null && isTombstoneSound(generation, row)) found.set(generation, row.noted_at as number);
  }
  return found;
}

function isTombstoneSound(generation: Generation, row: SqlRow): boolean {
  return isSum(row.row_sum, tombstoneSum(generation, row.noted_at as number, row.seen_at as number));
}
