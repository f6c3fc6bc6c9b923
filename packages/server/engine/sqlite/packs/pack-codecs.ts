/** Converts between the rows of packs and SQLite's. No rule lives here. */
import type {
  PackRejection,
  PackRow,
  PackState,
  PackUse,
  PackVerdicts,
} from '../../../core/packs/pack-model.ts';
import { bytesToHex, hexToBytes } from '../rows.ts';
import type { SqlRow } from '../statements.ts';

const STATES: readonly PackState[] = ['open', 'judging', 'judged'];

export function packFromSql(row: SqlRow): PackRow {
  return {
    id: bytesToHex(row.id as Uint8Array),
    generation: bytesToHex(row.generation as Uint8Array),
    ...{ state: stateOf(row), createdAt: row.created_at as number },
    urlExpiresAt: row.url_expires_at as number,
    touchedAt: row.touched_at as number,
    asked: row.asked as Uint8Array,
    bytes: (row.bytes as number | null) ?? undefined,
    publishedCount: row.published_count as number,
    reserved: { bytes: row.reserved_bytes as number, nodes: row.reserved_nodes as number },
    isDiscarded: row.is_discarded === 1,
  };
}

/** What tells whether the pack may be compacted. */
export function packFactsFromSql(row: SqlRow): Pick<PackRow, 'state' | 'bytes' | 'isDiscarded'> {
  const bytes = (row.bytes as number | null) ?? undefined;
  return { state: stateOf(row), bytes, isDiscarded: row.is_discarded === 1 };
}

/** @throws RangeError for a damaged row: an unknown state must not look like any other */
function stateOf({ state }: SqlRow): PackState {
  const known = STATES[state as number];
  if (known === undefined) throw new RangeError(`the row of a pack has the unknown state ${String(state)}`);
  return known;
}

export function useFromSql(row: SqlRow): PackUse {
  return {
    liveRecords: row.live_records as number,
    liveBytes: row.live_bytes as number,
    firstDeadAt: row.first_dead_at as number,
  };
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

export function verdictsFromSql(row: SqlRow): PackVerdicts {
  const byte = row.broken_byte as number | null;
  return {
    hashes: row.hashes as Uint8Array,
    rejections: JSON.parse(row.rejections as string) as PackRejection[],
    broken: byte === null ? undefined : { byte, message: row.broken_message as string },
  };
}

/** Values for the columns generation … broken_message, in the table's order. */
export function verdictsToSql(generation: string, { hashes, rejections, broken }: PackVerdicts) {
  const key = hexToBytes(generation);
  return [key, hashes, JSON.stringify(rejections), broken?.byte ?? null, broken?.message ?? null] as const;
}
