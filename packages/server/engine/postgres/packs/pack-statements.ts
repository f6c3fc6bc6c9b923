/** SQL about packs and about contents, which packs count. `$1` is the Space, except in statements of background work. */
import { PACK_HEADER_BYTES, RECORD_HEADER_BYTES } from '@holdfast/protocol';
import { SMALL_NODE_BYTES_MAX } from '../../../core/pack-ports.ts';
import { sumOfUse } from '../row-sums.ts';
import { given, isGiven, nowOr, spaceNamesOf, unlessChanged, walkOf } from '../sql-fragments.ts';

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
 * `locked`: the rows of `given`, once those of `table` are locked in the order of their generations, before any is changed. Packs also have
 * what they hold then: PostgreSQL checks constraints on what an UPDATE makes of its snapshot first, where a pack may hold less than is
 * taken from it.
 */
const locked = (table: 'contents' | 'packs', more = ''): string =>
  `locked AS MATERIALIZED (SELECT given.*${more} FROM given JOIN ${table} ON ${isGiven(table, 'generation')}
    ORDER BY ${table}.generation FOR UPDATE OF ${table})`;
const isLocked = (table: 'contents' | 'packs'): string => isGiven(table, 'generation', 'locked');

/** core/packs/own-packs.ts changeUse: since when a record is not live, by the pack as it is then. `died`: a record has just died. */
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
  ...{ state: 'state', bytes: 'packs.bytes', died: 'died', clock: '$8' },
  ...{ records: 'records_now + locked.records', live: 'bytes_now + locked.bytes' },
});
const DEAD_ONCE_UPDATED = firstDeadAt({
  ...{ state: 'locked.state', bytes: 'locked.bytes', died: 'false', clock: '$17' },
  ...{ records: 'live_records', live: 'live_bytes' },
});

/** The content of each row of `nodes`, if it has one, by one seek for each. */
export const withContent = (schema = ''): string => `LEFT JOIN LATERAL (
      SELECT * FROM ${schema}contents AS contents WHERE contents.space = nodes.space AND contents.generation = nodes.generation LIMIT 1) AS contents ON true`;

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
  settleContents: `WITH named AS MATERIALIZED (SELECT $1::uuid AS space, generation FROM unnest($2::bytea[]) AS list (generation)),
    asked AS MATERIALIZED (
      SELECT named.*, pack, stored_length FROM named JOIN contents ON ${isGiven('contents', 'generation', 'named')}
      ORDER BY contents.generation FOR UPDATE OF contents),
    gone AS (DELETE FROM contents USING asked WHERE ${isGiven('contents', 'generation', 'asked')}),
    given AS MATERIALIZED (
      SELECT $1::uuid AS space, generation, sum(records)::bigint AS records, sum(bytes)::bigint AS bytes,
        bool_or(died) AS died, bool_or(NOT died) AS came FROM (
          SELECT pack, -1::bigint, -stored_length, true FROM asked WHERE pack IS NOT NULL
          UNION ALL SELECT * FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::boolean[])
          UNION ALL SELECT generation, 0, 0, NULL FROM unnest($7::bytea[]) AS further (generation)
        ) AS changes (generation, records, bytes, died) GROUP BY generation),
    ${locked('packs', ', live_records AS records_now, live_bytes AS bytes_now')},
    changed AS (
      UPDATE packs SET live_records = records_now + locked.records, live_bytes = bytes_now + locked.bytes,
        first_dead_at = ${DEAD_ONCE_SETTLED}, use_sum = ${sumOfUse('locked.records', 'locked.bytes', DEAD_ONCE_SETTLED)}
      FROM locked WHERE ${isLocked('packs')} AND died IS NOT NULL AND NOT (came AND discarded)
      RETURNING 1)
    ${unlessChanged('(SELECT count(died) FROM given)')}`,
  /** Each only if it still names what $3 and $4 say. In the order of the columns: what it names then. */
  moveRecords: `WITH ${given(
    'generation, from_pack, from_offset, pack, pack_offset, stored_length, codec, integrity, place_sum',
    '$2::bytea[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::smallint[], $9::bytea[], $10::bigint[]',
  )},
    ${locked('contents')}
    UPDATE contents SET pack = locked.pack, pack_offset = locked.pack_offset, stored_length = locked.stored_length,
      codec = locked.codec, integrity = locked.integrity, place_sum = CASE WHEN contents.row_sum IS NOT NULL THEN locked.place_sum END
    FROM locked WHERE ${isLocked('contents')} AND contents.pack = from_pack AND contents.pack_offset = from_offset
    RETURNING contents.generation`,

  findPack: `SELECT ${PACK_COLUMNS}, version FROM packs WHERE space = $1 AND id = $2`,
  /** $2 for what, $3 a clock or NULL */
  findOpenPack: `SELECT ${PACK_COLUMNS}, version FROM packs
    WHERE space = $1 AND asked = $2 AND state = 0 AND url_expires_at > ${nowOr('$3')} ORDER BY created_at DESC LIMIT 1`,
  findPackUse: `SELECT ${USE_COLUMNS} FROM packs WHERE space = $1 AND generation = $2`,
  insertPacks: `INSERT INTO packs (space, ${PACK_COLUMNS}, version, ${USE_COLUMNS})
    SELECT $1::uuid, given.* FROM unnest(${PACK_ARRAYS}, $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[]) AS given`,
  /** $15 the versions that were read, $16 how many, $17 a clock or NULL. A pack with live records is never discarded. */
  updatePacks: `WITH ${given(`${PACK_COLUMNS}, version`, `${PACK_ARRAYS}, $15::bigint[]`)}, ${locked('packs')},
    changed AS (
      UPDATE packs SET version = packs.version + 1, url_expires_at = locked.url_expires_at, touched_at = locked.touched_at,
        bytes = locked.bytes, published_count = locked.published_count, reserved_bytes = locked.reserved_bytes,
        reserved_nodes = locked.reserved_nodes, state = locked.state, discarded = locked.discarded,
        first_dead_at = ${DEAD_ONCE_UPDATED}, row_sum = locked.row_sum, use_sum = ${sumOfUse('0', '0', DEAD_ONCE_UPDATED)}
      FROM locked WHERE ${isLocked('packs')} AND packs.version = locked.version
        AND NOT (locked.discarded AND packs.live_records > 0)
      RETURNING 1)
    ${unlessChanged('$16::bigint')}`,
  /** $3 the versions that were read, $4 how many */
  deletePacks: `WITH ${given('generation, version', '$2::bytea[], $3::bigint[]')}, ${locked('packs')},
    changed AS (DELETE FROM packs USING locked WHERE ${isLocked('packs')} AND packs.version = locked.version RETURNING 1)
    ${unlessChanged('$4::bigint')}`,
  findVerdicts:
    'SELECT hashes, rejections, broken_byte, broken_message, row_sum FROM pack_verdicts WHERE space = $1 AND generation = $2',
  setVerdicts: `INSERT INTO pack_verdicts (space, generation, hashes, rejections, broken_byte, broken_message, row_sum)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (space, generation) DO UPDATE SET hashes = excluded.hashes,
      rejections = excluded.rejections, broken_byte = excluded.broken_byte, broken_message = excluded.broken_message,
      row_sum = excluded.row_sum`,
  deleteVerdicts: `WITH ${given('generation', '$2::bytea[]')}
    DELETE FROM pack_verdicts USING given WHERE ${isGiven('pack_verdicts', 'generation')}`,
  /** $2 until when, $3 limit. Locked rows are skipped. No pack goes that a row of content names, or that is being judged. */
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
  findSpacesToPack: `WITH ${walkOf('contents', IS_TO_PACK)}
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
