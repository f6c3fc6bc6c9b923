/** SQL about packs and about contents, which packs count. `$1` is the Space, except in statements of background work. */
import { PACK_HEADER_BYTES, RECORD_HEADER_BYTES } from '@holdfast/protocol';
import { SMALL_NODE_BYTES_MAX } from '../../../core/packs/pack-ports.ts';
import { sumOfUse } from '../row-sums.ts';
import { nowOr, spaceNamesOf, unlessChanged } from '../sql-fragments.ts';

export const PLACE_COLUMNS = 'pack, pack_offset, stored_length, codec';
const CONTENT_SUMS = 'row_sum, place_sum';
const CONTENT_COLUMNS = `generation, canonical_size, url_expires_at, integrity, inline_bytes, ${PLACE_COLUMNS}, ${CONTENT_SUMS}`;
export const CONTENT_JOINED = CONTENT_COLUMNS.split(', ')
  .map((column) => `contents.${column} AS content_${column}`)
  .join(', ');
const PACK_COLUMNS =
  'generation, id, created_at, url_expires_at, touched_at, bytes, published_count, reserved_bytes, reserved_nodes, state, discarded, asked, row_sum';
const PACK_ARRAYS =
  '$2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::smallint[], $12::boolean[], $13::bytea[], $14::bigint[]';
const USE_COLUMNS = 'live_records, live_bytes, first_dead_at, use_sum';

/**
 * Locks packs in the order of their generations, before any is changed; `generations`: an array. It has what they hold once locked:
 * PostgreSQL checks constraints on what an UPDATE makes of its snapshot first, where a pack may hold less than is taken from it.
 */
const lockedPacks = (generations: string): string =>
  `locked AS MATERIALIZED (SELECT generation, live_records AS records_now, live_bytes AS bytes_now
    FROM packs WHERE space = $1 AND generation = ANY (${generations})
    ORDER BY generation FOR UPDATE)`;
const IS_LOCKED = 'packs.generation = ANY (ARRAY(SELECT generation FROM locked))';

/** core/packs/pack-use.ts changeUse: since when a record is not live, by the pack as it is then. `died`: a record has just died. */
const firstDeadAt = (pack: {
  state: string;
  bytes: string;
  records: string;
  live: string;
  died: string;
  clock: string;
}) => {
  const dead = `coalesce(greatest(${pack.bytes} - ${PACK_HEADER_BYTES} - ${RECORD_HEADER_BYTES} * (${pack.records}) - (${pack.live}), 0), 0)`;
  return `CASE WHEN ${pack.state} = 2 AND ${dead} = 0 THEN 0
      WHEN first_dead_at = 0 AND (${pack.died} OR (${pack.state} = 2 AND ${pack.records} > 0 AND ${dead} > 0)) THEN ${nowOr(pack.clock)}
      ELSE first_dead_at END`;
};

const DEAD_ONCE_SETTLED = firstDeadAt({
  ...{ state: 'state', bytes: 'packs.bytes', died: 'use.died', clock: '$8' },
  ...{ records: 'records_now + use.records', live: 'bytes_now + use.bytes' },
});
const DEAD_ONCE_UPDATED = firstDeadAt({
  ...{ state: 'given.state', bytes: 'given.bytes', died: 'false', clock: '$17' },
  ...{ records: 'live_records', live: 'live_bytes' },
});

/** The condition of the index `contents_to_pack`. */
const IS_TO_PACK = `pack IS NULL AND inline_bytes IS NULL AND canonical_size <= ${SMALL_NODE_BYTES_MAX}`;

/** Statements of requests: each stays within one Space, by index. */
export const PACK_STATEMENTS = {
  findContent: `SELECT ${CONTENT_COLUMNS} FROM contents WHERE space = $1 AND generation = $2`,
  /** So that a record is not moved meanwhile. */
  lockContent: `SELECT ${CONTENT_COLUMNS} FROM contents WHERE space = $1 AND generation = $2 FOR UPDATE`,
  insertContents: `INSERT INTO contents (space, ${CONTENT_COLUMNS})
    SELECT $1::uuid, given.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[],
      $7::bytea[], $8::bigint[], $9::bigint[], $10::smallint[], $11::bigint[], $12::bigint[]) AS given`,
  /**
   * Deletes contents ($2) and counts the live records of packs: what these contents named, and what else has changed ($3 packs, $4
   * records, $5 stored bytes, $6 whether some died). $7 further packs that this transaction changes, $8 a clock or NULL. A record
   * is never added to a pack that is discarded.
   */
  settleContents: `WITH asked AS MATERIALIZED (
      SELECT generation, pack, stored_length FROM contents WHERE space = $1 AND generation = ANY ($2::bytea[])
      ORDER BY generation FOR UPDATE),
    gone AS (
      DELETE FROM contents WHERE space = $1 AND generation = ANY (ARRAY(SELECT generation FROM asked))),
    use AS MATERIALIZED (
      SELECT pack, sum(records)::bigint AS records, sum(bytes)::bigint AS bytes, bool_or(died) AS died,
        bool_or(NOT died) AS came FROM (
          SELECT pack, -1::bigint, -stored_length, true FROM asked WHERE pack IS NOT NULL
          UNION ALL SELECT * FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::boolean[])
        ) AS changes (pack, records, bytes, died) GROUP BY pack),
    ${lockedPacks('ARRAY(SELECT pack FROM use) || $7::bytea[]')},
    changed AS (
      UPDATE packs SET live_records = records_now + use.records, live_bytes = bytes_now + use.bytes,
        first_dead_at = ${DEAD_ONCE_SETTLED}, use_sum = ${sumOfUse('use.records', 'use.bytes', DEAD_ONCE_SETTLED)}
      FROM use JOIN locked ON locked.generation = use.pack
      WHERE packs.space = $1 AND ${IS_LOCKED} AND packs.generation = use.pack AND NOT (use.came AND discarded)
      RETURNING 1)
    ${unlessChanged('(SELECT count(*) FROM use)')}`,
  /** Each only if it still names what $3 and $4 say. In the order of the columns: what it names then. */
  moveRecords: `WITH locked AS MATERIALIZED (
      SELECT generation FROM contents WHERE space = $1 AND generation = ANY ($2::bytea[]) ORDER BY generation FOR UPDATE)
    UPDATE contents SET pack = given.pack, pack_offset = given.pack_offset, stored_length = given.stored_length,
      codec = given.codec, integrity = given.integrity, place_sum = CASE WHEN contents.row_sum IS NOT NULL THEN given.place_sum END
    FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::smallint[], $9::bytea[], $10::bigint[])
      AS given (generation, from_pack, from_offset, pack, pack_offset, stored_length, codec, integrity, place_sum)
    WHERE contents.space = $1 AND contents.generation = ANY (ARRAY(SELECT generation FROM locked))
      AND contents.generation = given.generation AND contents.pack = given.from_pack
      AND contents.pack_offset = given.from_offset
    RETURNING contents.generation`,

  findPack: `SELECT ${PACK_COLUMNS}, version FROM packs WHERE space = $1 AND id = $2`,
  /** $2 for what, $3 a clock or NULL */
  findOpenPack: `SELECT ${PACK_COLUMNS}, version FROM packs
    WHERE space = $1 AND asked = $2 AND state = 0 AND url_expires_at > ${nowOr('$3')} ORDER BY created_at DESC LIMIT 1`,
  findPackUse: `SELECT ${USE_COLUMNS} FROM packs WHERE space = $1 AND generation = $2`,
  insertPacks: `INSERT INTO packs (space, ${PACK_COLUMNS}, version, ${USE_COLUMNS})
    SELECT $1::uuid, given.* FROM unnest(${PACK_ARRAYS}, $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[]) AS given`,
  /** $15 the versions that were read, $16 how many, $17 a clock or NULL. A pack with live records is never discarded. */
  updatePacks: `WITH ${lockedPacks('$2::bytea[]')},
    changed AS (
      UPDATE packs SET version = packs.version + 1, url_expires_at = given.url_expires_at, touched_at = given.touched_at,
        bytes = given.bytes, published_count = given.published_count, reserved_bytes = given.reserved_bytes,
        reserved_nodes = given.reserved_nodes, state = given.state, discarded = given.discarded,
        first_dead_at = ${DEAD_ONCE_UPDATED}, row_sum = given.row_sum, use_sum = ${sumOfUse('0', '0', DEAD_ONCE_UPDATED)}
      FROM unnest(${PACK_ARRAYS}, $15::bigint[]) AS given (${PACK_COLUMNS}, version)
      WHERE packs.space = $1 AND ${IS_LOCKED} AND packs.generation = given.generation AND packs.version = given.version
        AND NOT (given.discarded AND packs.live_records > 0)
      RETURNING 1)
    ${unlessChanged('$16::bigint')}`,
  /** $3 the versions that were read, $4 how many */
  deletePacks: `WITH ${lockedPacks('$2::bytea[]')},
    changed AS (
      DELETE FROM packs USING unnest($2::bytea[], $3::bigint[]) AS given (generation, version)
      WHERE packs.space = $1 AND ${IS_LOCKED} AND packs.generation = given.generation AND packs.version = given.version
      RETURNING 1)
    ${unlessChanged('$4::bigint')}`,
  findVerdicts:
    'SELECT hashes, rejections, broken_byte, broken_message, row_sum FROM pack_verdicts WHERE space = $1 AND generation = $2',
  setVerdicts: `INSERT INTO pack_verdicts (space, generation, hashes, rejections, broken_byte, broken_message, row_sum)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (space, generation) DO UPDATE SET hashes = excluded.hashes,
      rejections = excluded.rejections, broken_byte = excluded.broken_byte, broken_message = excluded.broken_message,
      row_sum = excluded.row_sum`,
  deleteVerdicts: 'DELETE FROM pack_verdicts WHERE space = $1 AND generation = ANY ($2::bytea[])',
  /**
   * $2 until when, $3 limit. Rows that another transaction has locked are skipped. No pack goes that a row of content names, whatever
   * its own row says: one that is being judged does not go.
   */
  findPacksToSweep: `SELECT ${PACK_COLUMNS}, version, ${USE_COLUMNS} FROM packs WHERE space = $1 AND sweep_at <= $2
      AND (state = 1 OR (SELECT count(*) FROM (
        SELECT FROM contents WHERE contents.space = $1 AND contents.pack = packs.generation LIMIT 1) AS named) = 0)
    ORDER BY sweep_at LIMIT $3 FOR UPDATE SKIP LOCKED`,
  /** $2 pack, $3 offset after which, $4 rows */
  findPackRecords: `SELECT ${CONTENT_COLUMNS} FROM contents WHERE space = $1 AND pack = $2 AND pack_offset > $3
    ORDER BY pack_offset LIMIT $4`,
  /** $2 generation after which, $3 generation that is too young, $4 rows */
  findContentsToPack: `SELECT ${CONTENT_COLUMNS} FROM contents
    WHERE ${IS_TO_PACK} AND space = $1 AND generation > $2 AND generation < $3 ORDER BY generation LIMIT $4`,
  sumReserved: `SELECT coalesce(sum(reserved_bytes), 0)::bigint AS bytes, coalesce(sum(reserved_nodes), 0)::bigint AS nodes
    FROM packs WHERE space = $1 AND (reserved_bytes > 0 OR reserved_nodes > 0)`,
} as const;

/** `count`: how many uploads and packs are active, as far as $3 */
export const activeCount = (clock: string): string =>
  `(SELECT least($3, (SELECT count(*) FROM (
      SELECT 1 FROM uploads WHERE space = $1 AND url_expires_at > ${clock} LIMIT $3) AS uploads)
    + (SELECT count(*) FROM (
      SELECT 1 FROM packs WHERE space = $1 AND state < 2 AND url_expires_at > ${clock} LIMIT $3) AS packs)))`;

/** Across Spaces. */
export const PACK_BACKGROUND_STATEMENTS = {
  readDeadBytes: `SELECT coalesce(sum(dead_bytes), 0)::bigint AS bytes FROM packs
    WHERE dead_bytes > 0 AND first_dead_at > 0`,
  /** $1 the Space after which to look, $2 how many, $3 generation that is too young, $4 how many contents are too few */
  findSpacesToPack: `WITH RECURSIVE walk (space, step) AS (
      (SELECT space, 1 FROM contents WHERE ${IS_TO_PACK} AND space > $1 ORDER BY space LIMIT 1)
      UNION ALL
      SELECT next.space, step + 1 FROM walk CROSS JOIN LATERAL (
        SELECT space FROM contents WHERE ${IS_TO_PACK} AND space > walk.space ORDER BY space LIMIT 1) AS next WHERE step < $2)
    SELECT walk.space, ${spaceNamesOf('walk')}, EXISTS (
      SELECT FROM contents WHERE ${IS_TO_PACK} AND contents.space = walk.space AND generation < $3
      ORDER BY generation OFFSET $4 LIMIT 1) AS is_worth_packing FROM walk ORDER BY walk.space`,
  /** $1 until when a record must have died unless less than half is live, $2 limit */
  findPacksToCompact: `WITH old AS MATERIALIZED (
      SELECT space, generation, first_dead_at, 0 AS dead_bytes FROM packs
      WHERE dead_bytes > 0 AND first_dead_at <= $1 ORDER BY first_dead_at LIMIT $2),
    gainful AS MATERIALIZED (
      SELECT space, generation, NULL::bigint AS first_dead_at, dead_bytes FROM packs
      WHERE dead_bytes > 0 AND dead_bytes * 2 > bytes AND first_dead_at > $1 ORDER BY dead_bytes DESC LIMIT $2),
    wanted AS MATERIALIZED (
      SELECT * FROM (SELECT * FROM old UNION ALL SELECT * FROM gainful) AS either
      ORDER BY first_dead_at NULLS LAST, dead_bytes DESC LIMIT $2)
    SELECT wanted.space, found.*, ${spaceNamesOf('wanted')} FROM wanted CROSS JOIN LATERAL (
      SELECT ${PACK_COLUMNS}, version, ${USE_COLUMNS} FROM packs
      WHERE packs.space = wanted.space AND packs.generation = wanted.generation LIMIT 1) AS found
    ORDER BY wanted.first_dead_at NULLS LAST, wanted.dead_bytes DESC`,
} as const;
