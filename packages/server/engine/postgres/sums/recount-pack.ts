/** The use that a damaged row of a pack must have, by the content rows that name the pack. */
import { useSum } from '../row-sums.ts';
import { findProvenContent } from '../rows.ts';
import { spaceKeyFromSql } from '../space-names.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { byteaToHex, type SqlRow } from '../wire/sql-values.ts';
import type { StoredValues } from './stored-rows.ts';

const FIND_RECORDS = `SELECT generation, canonical_size, url_expires_at, integrity, NULL::bytea AS inline_bytes, pack, pack_offset,
    stored_length, codec, row_sum, place_sum FROM contents WHERE space = $1 AND pack = $2`;

/** undefined: more than its use is damaged, or the records cannot say what it holds. */
export async function findPackMend(pool: PostgresPool, row: SqlRow): Promise<StoredValues | undefined> {
  const space = spaceKeyFromSql(row.space);
  const generation = byteaToHex(row.generation);
  const { rows } = await pool.read('recounting a row', FIND_RECORDS, [space, row.generation as string]);
  const records = rows.map((found) => findProvenContent(space, found));
  if (records.includes(undefined)) return undefined;
  const bytes = records.reduce((sum, record) => sum + (record?.packed?.storedLength ?? 0), 0);
  const firstDeadAt = Math.max(0, Math.min(row.first_dead_at as number, Number.MAX_SAFE_INTEGER));
  if (records.length === 0) return undefined;
  const sum = useSum(space, generation, [records.length, bytes, firstDeadAt]);
  return { live_records: BigInt(records.length), live_bytes: BigInt(bytes), use_sum: BigInt(sum) };
}
