/** Converts between the model's rows of packs and PostgreSQL's. */
import type { Generation, SpaceKey } from '../../../core/model.ts';
import type { PackRow, PackUse, PackVerdicts } from '../../../core/pack-model.ts';
import { PACK_STATES as STATES, useOf as unprovenUse } from '../../rows/codecs.ts';
import { RowDamaged } from '../damage.ts';
import { sumOf, useSum } from '../row-sums.ts';
import { unprovenPackIn, unprovenVerdicts } from '../rows.ts';
import { byteaToBytes, bytesToBytea, hexToBytea, type SqlRow, type SqlValue } from '../wire/wire-messages.ts';

export { unprovenUse };
export const NEW_VERSION = 1;

/** @throws RowDamaged */
export function packFromSql(space: SpaceKey, row: SqlRow): PackRow {
  const { pack, isProven } = readPack(space, row);
  if (!isProven) throw new RowDamaged('packs', `pack ${pack.generation}`);
  return pack;
}

export function readPack(
  space: SpaceKey,
  row: SqlRow,
): { readonly pack: PackRow; readonly isProven: boolean } {
  const pack = unprovenPack(row);
  const isProven = row.row_sum === null || row.row_sum === packSum(space, pack, row.version as number);
  return { pack, isProven };
}

/** The sums that a row with these values has: of itself, and of its live records. */
export function sumsOfPack(space: SpaceKey, row: SqlRow): { readonly row: number; readonly use: number } {
  const pack = unprovenPack(row);
  const { liveRecords, liveBytes, firstDeadAt } = unprovenUse(row);
  return {
    row: packSum(space, pack, row.version as number),
    use: useSum(space, pack.generation, [liveRecords, liveBytes, firstDeadAt]),
  };
}

function packSum(space: SpaceKey, pack: PackRow, version: number): number {
  const { generation, id, createdAt, urlExpiresAt, touchedAt, bytes, publishedCount, reserved } = pack;
  return sumOf(
    ...['packs', space, generation, id, createdAt, urlExpiresAt, touchedAt, bytes ?? null, publishedCount],
    ...[reserved.bytes, reserved.nodes, STATES.indexOf(pack.state), pack.isDiscarded ? 1 : 0, pack.asked],
    version,
  );
}

const unprovenPack = (row: SqlRow): PackRow => unprovenPackIn(row, row.discarded);

/** In the order of PACK_COLUMNS, one array per column. `versions`: which these are then, aligned with `packs`. */
export function packsToSql(
  space: SpaceKey,
  packs: readonly PackRow[],
  versions: readonly number[],
): SqlValue[] {
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
    packs.map((pack, index) => packSum(space, pack, versions[index] as number)),
  ];
}

/** New packs, which no record names yet. Version and use follow PACK_COLUMNS. */
export function newPacksToSql(space: SpaceKey, packs: readonly PackRow[]): SqlValue[] {
  const zeros = packs.map(() => 0);
  const versions = packs.map(() => NEW_VERSION);
  return [
    ...packsToSql(space, packs, versions),
    versions,
    ...[zeros, zeros, zeros],
    packs.map(({ generation }) => useSum(space, generation, [0, 0, 0])),
  ];
}

/** @throws RowDamaged */
export function useFromSql(space: SpaceKey, generation: Generation, row: SqlRow): PackUse {
  if (!isUseProven(space, generation, row)) throw new RowDamaged('packs', `pack ${generation}`);
  return unprovenUse(row);
}

export function isUseProven(space: SpaceKey, generation: Generation, row: SqlRow): boolean {
  const { liveRecords, liveBytes, firstDeadAt } = unprovenUse(row);
  const sum = useSum(space, generation, [liveRecords, liveBytes, firstDeadAt]);
  return row.use_sum === null || row.use_sum === sum;
}

/** @throws RowDamaged */
export function verdictsFromSql(space: SpaceKey, generation: Generation, row: SqlRow): PackVerdicts {
  if (row.row_sum !== null && row.row_sum !== sumOfVerdicts(space, generation, row))
    throw new RowDamaged('pack_verdicts', `pack ${generation}`);
  return unprovenVerdicts(row);
}

export const sumOfVerdicts = (space: SpaceKey, generation: Generation, row: SqlRow): number =>
  sumOf(
    ...['verdicts', space, generation, byteaToBytes(row.hashes), row.rejections as string],
    ...[row.broken_byte as number | null, row.broken_message as string | null],
  );

/** Behind Space and generation. */
export function verdictsToSql(
  space: SpaceKey,
  generation: Generation,
  { hashes, rejections, broken }: PackVerdicts,
): SqlValue[] {
  const values = [JSON.stringify(rejections), broken?.byte ?? null, broken?.message ?? null] as const;
  return [bytesToBytea(hashes), ...values, sumOf('verdicts', space, generation, hashes, ...values)];
}
