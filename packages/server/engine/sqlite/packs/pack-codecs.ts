/** Converts between the rows of packs and SQLite's. No rule lives here. */
import type { PackRow, PackState, PackVerdicts } from '../../../core/pack-model.ts';
import { isSum, packSum, packUseSum, verdictsSum } from '../../../core/rows/row-sums.ts';
import { PACK_STATES as STATES, useOf as useFromSql } from '../../rows/codecs.ts';
import { bytesToHex, damagedRow, decodePackIn, hexToBytes, verdictsIn } from '../rows.ts';
import type { SqlRow } from '../statements.ts';

export { useFromSql };

/** @throws StoreUnavailable, as damage */
export function packFromSql(row: SqlRow): PackRow {
  if (!isPackSound(row)) throw damagedRow('pack', bytesToHex(row.id as Uint8Array));
  return decodePack(row);
}

/** Whether the row is as it was written. */
export function isPackSound(row: SqlRow): boolean {
  if (!isPackWhole(row)) return false;
  const sum = packSum(row.space as number, decodePack(row)) + packUseSum(useFromSql(row));
  return isSum(row.row_sum, sum);
}

/** Whether it has only values that a row can have. */
export function isPackWhole({ state, is_discarded: isDiscarded }: SqlRow): boolean {
  return STATES[state as number] !== undefined && (isDiscarded === 0 || isDiscarded === 1);
}

export const decodePack = (row: SqlRow): PackRow => decodePackIn(row, row.is_discarded);

/** The facts that decide whether the pack may be compacted. */
export function packFactsFromSql(row: SqlRow): Pick<PackRow, 'state' | 'bytes' | 'isDiscarded'> {
  const bytes = (row.bytes as number | null) ?? undefined;
  return { state: stateOf(row), bytes, isDiscarded: row.is_discarded === 1 };
}

/** Call it for a row that was looked at: an unknown state must not look like any other. */
function stateOf({ state }: SqlRow): PackState {
  return STATES[state as number] as PackState;
}

/** Values for the columns state … is_discarded, in the table's order. */
export function packToSql(row: PackRow): (string | number | Uint8Array | null)[] {
  return [
    ...[STATES.indexOf(row.state), row.createdAt, row.urlExpiresAt, row.touchedAt, row.asked],
    ...[row.bytes ?? null, row.publishedCount, row.reserved.bytes, row.reserved.nodes],
    Number(row.isDiscarded),
  ];
}

/** Values by which a statement checks that the row is still as it was read. */
export function packGuards({ state, publishedCount }: PackRow): [number, number] {
  return [STATES.indexOf(state), publishedCount];
}

/** @throws StoreUnavailable, as damage */
export function verdictsFromSql(row: SqlRow): PackVerdicts {
  const generation = bytesToHex(row.generation as Uint8Array);
  try {
    const verdicts = decodeVerdicts(row);
    if (isSum(row.row_sum, verdictsSum(generation, verdicts))) return verdicts;
  } catch {
    // Text that is not JSON is damaged.
  }
  throw damagedRow('the verdicts of pack', generation);
}

export function decodeVerdicts(row: SqlRow): PackVerdicts {
  if ((row.broken_byte === null) !== (row.broken_message === null))
    throw damagedRow('the verdicts of', 'a pack');
  return verdictsIn(row);
}

/** Values for the columns generation … row_sum, in the table's order. */
export function verdictsToSql(generation: string, { hashes, rejections, broken }: PackVerdicts) {
  const key = hexToBytes(generation);
  const text = JSON.stringify(rejections);
  const sum = verdictsSum(generation, { hashes, rejections, broken });
  return [key, hashes, text, broken?.byte ?? null, broken?.message ?? null, sum] as const;
}
