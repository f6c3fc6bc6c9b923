/** Converts between the model's rows of packs and PostgreSQL's. */
import type {
  PackRejection,
  PackRow,
  PackState,
  PackUse,
  PackVerdicts,
} from '../../../core/packs/pack-model.ts';
import {
  byteaToBytes,
  byteaToHex,
  bytesToBytea,
  hexToBytea,
  type SqlRow,
  type SqlValue,
} from '../wire/sql-values.ts';

const STATES: readonly PackState[] = ['open', 'judging', 'judged'];

export function packFromSql(row: SqlRow): PackRow {
  return {
    id: byteaToHex(row.id),
    generation: byteaToHex(row.generation),
    state: STATES[row.state as number] as PackState,
    createdAt: row.created_at as number,
    urlExpiresAt: row.url_expires_at as number,
    touchedAt: row.touched_at as number,
    asked: byteaToBytes(row.asked),
    bytes: (row.bytes as number | null) ?? undefined,
    publishedCount: row.published_count as number,
    reserved: { bytes: row.reserved_bytes as number, nodes: row.reserved_nodes as number },
    isDiscarded: row.discarded as boolean,
  };
}

/** In the order of PACK_COLUMNS, one array per column. */
export function packsToSql(packs: readonly PackRow[]): SqlValue[] {
  return [
    packs.map(({ generation }) => hexToBytea(generation)),
    packs.map(({ id }) => hexToBytea(id)),
    packs.map(({ createdAt }) => createdAt),
    packs.map(({ urlExpiresAt }) => urlExpiresAt),
    packs.map(({ touchedAt }) => touchedAt),
    packs.map(({ bytes }) => bytes ?? null),
    packs.map(({ publishedCount }) => publishedCount),
    packs.map(({ reserved }) => reserved.bytes),
    packs.map(({ reserved }) => reserved.nodes),
    packs.map(({ state }) => STATES.indexOf(state)),
    packs.map(({ isDiscarded }) => (isDiscarded ? 't' : 'f')),
    packs.map(({ asked }) => bytesToBytea(asked)),
  ];
}

export function useFromSql(row: SqlRow): PackUse {
  return {
    liveRecords: row.live_records as number,
    liveBytes: row.live_bytes as number,
    firstDeadAt: row.first_dead_at as number,
  };
}

export function verdictsFromSql(row: SqlRow): PackVerdicts {
  const byte = row.broken_byte as number | null;
  return {
    hashes: byteaToBytes(row.hashes),
    rejections: JSON.parse(row.rejections as string) as PackRejection[],
    broken: byte === null ? undefined : { byte, message: row.broken_message as string },
  };
}

/** Behind Space and generation. */
export function verdictsToSql({ hashes, rejections, broken }: PackVerdicts): SqlValue[] {
  return [bytesToBytea(hashes), JSON.stringify(rejections), broken?.byte ?? null, broken?.message ?? null];
}
