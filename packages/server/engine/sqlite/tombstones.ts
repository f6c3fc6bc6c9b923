/** Which objects a walk has found without a record before (core/stray-watch.ts). */
import type { Generation } from '../../core/model.ts';
import { hexToBytes } from './rows.ts';
import type { ReadStatements } from './statements.ts';

/** When each was noted first, ms. */
export function findTombstones(
  { findTombstone }: ReadStatements,
  generations: readonly Generation[],
): ReadonlyMap<Generation, number> {
  const found = new Map<Generation, number>();
  for (const generation of generations) {
    const row = findTombstone.get(hexToBytes(generation));
    if (row !== null) found.set(generation, row.noted_at as number);
  }
  return found;
}
