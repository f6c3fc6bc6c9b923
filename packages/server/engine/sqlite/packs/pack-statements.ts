/** SQL of packs (statements.ts prepares it). `?1` is the Space's integer id unless the name says otherwise. */
import { SMALL_NODE_BYTES_MAX } from '../../../core/pack-ports.ts';

const PACK_COLUMNS =
  'generation, space, id, state, created_at, url_expires_at, touched_at, asked, bytes, published_count, reserved_bytes, reserved_nodes, is_discarded';
const USE_COLUMNS = 'live_records, live_bytes, first_dead_at, row_sum';
const WHOLE_PACK = `${PACK_COLUMNS}, ${USE_COLUMNS}`;

export const CONTENT_COLUMNS =
  'generation, space, canonical_size, integrity, inline_bytes, url_expires_at, pack, pack_offset, stored_length, codec, row_sum';

/** A pack is not deleted by its own row alone: no record may name it. */
const HAS_NO_RECORD = 'NOT EXISTS (SELECT 1 FROM contents WHERE contents.pack = packs.generation)';

/** The condition of the index `contents_to_pack`. */
const IS_TO_PACK = `pack IS NULL AND inline_bytes IS NULL AND canonical_size <= ${SMALL_NODE_BYTES_MAX}`;

export const PACK_READ_STATEMENTS = {
  /** ?2 id */
  findPack: `SELECT ${WHOLE_PACK} FROM packs WHERE space = ?1 AND id = ?2`,
  /** ?2 generation */
  findVerdicts:
    'SELECT pack_verdicts.generation, hashes, rejections, broken_byte, broken_message, pack_verdicts.row_sum FROM packs CROSS JOIN pack_verdicts ON pack_verdicts.generation = packs.generation WHERE packs.generation = ?2 AND packs.space = ?1',
  /** ?1 dead since, ?2 limit */
  findOverduePacks: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_dying WHERE dead_bytes > 0 AND first_dead_at <= ?1 ORDER BY first_dead_at LIMIT ?2`,
  /** ?1 dead since, ?2 limit: packs that are not overdue */
  findGainfulPacks: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_dead WHERE dead_bytes > 0 AND dead_bytes * 2 > bytes AND first_dead_at > ?1 ORDER BY dead_bytes DESC LIMIT ?2`,
  readDeadBytes: 'SELECT total(dead_bytes) AS bytes FROM packs INDEXED BY packs_dead WHERE dead_bytes > 0',
  findPackRecords: `SELECT ${CONTENT_COLUMNS} FROM contents INDEXED BY contents_by_pack WHERE pack = ?2 AND pack_offset > ?3 AND space = ?1 ORDER BY pack_offset LIMIT ?4`,
  /** ?1 the Space id after which to look */
  nextSpaceToPack: `SELECT space FROM contents INDEXED BY contents_to_pack WHERE ${IS_TO_PACK} AND space > ?1 ORDER BY space LIMIT 1`,
  /** ?2 generation that is too young, ?3 how many contents come before the one that is looked for */
  hasContentsToPack: `SELECT 1 AS known FROM contents INDEXED BY contents_to_pack WHERE ${IS_TO_PACK} AND space = ?1 AND generation < ?2 ORDER BY generation LIMIT 1 OFFSET ?3`,
  /** ?2 generation after which, ?3 generation that is too young, ?4 limit */
  findContentsToPack: `SELECT ${CONTENT_COLUMNS} FROM contents INDEXED BY contents_to_pack WHERE ${IS_TO_PACK} AND space = ?1 AND generation > ?2 AND generation < ?3 ORDER BY generation LIMIT ?4`,
  /** ?1 generation */
  isPackKnown: 'SELECT bytes FROM packs WHERE generation = ?1 AND is_discarded = 0',
  /** ?1 the Space id after which to look, as in statements.ts */
  nextSpaceUnjudged:
    'SELECT space, url_expires_at AS oldest FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space > ?1 ORDER BY space, url_expires_at LIMIT 1',
  /** ?2 when its URL ends, ?3 when it was touched, ?4 generation after which, ?5 rows */
  findUnseenPacks:
    'SELECT id, generation, url_expires_at, touched_at FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space = ?1 AND url_expires_at >= ?2 AND (url_expires_at > ?2 OR touched_at > ?3 OR (touched_at = ?3 AND generation > ?4)) AND state = 0 AND bytes IS NULL ORDER BY url_expires_at, touched_at, generation LIMIT ?5',
  nextSpaceEmptied:
    'SELECT space, 0 AS oldest FROM packs INDEXED BY packs_empty WHERE state = 2 AND is_discarded = 0 AND live_records = 0 AND space > ?1 ORDER BY space LIMIT 1',
  nextSpaceForgetting:
    'SELECT space, touched_at AS oldest FROM packs INDEXED BY packs_discarded WHERE state = 2 AND is_discarded = 1 AND live_records = 0 AND space > ?1 ORDER BY space, touched_at LIMIT 1',
  hasAbandonedPack:
    'SELECT 1 AS known FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space = ?1 AND url_expires_at <= ?2 AND touched_at <= ?2 LIMIT 1',
} as const;

export const PACK_WRITE_STATEMENTS = {
  /** ?2 asked, ?3 now */
  findOpenPack: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_open WHERE state = 0 AND space = ?1 AND asked = ?2 AND url_expires_at > ?3 ORDER BY created_at DESC LIMIT 1`,
  insertPack: `INSERT INTO packs (${PACK_COLUMNS}, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`,
  /** the last two are what the row was */
  updatePack:
    'UPDATE packs SET state = ?4, created_at = ?5, url_expires_at = ?6, touched_at = ?7, asked = ?8, bytes = ?9, published_count = ?10, reserved_bytes = ?11, reserved_nodes = ?12, is_discarded = ?13, row_sum = row_sum + ?16 WHERE generation = ?1 AND space = ?2 AND id = ?3 AND state = ?14 AND published_count = ?15',
  deletePack: 'DELETE FROM packs WHERE generation = ?2 AND space = ?1 AND live_records = 0',
  /** ?1 generation in all below */
  deleteVerdicts: 'DELETE FROM pack_verdicts WHERE generation = ?1',
  setVerdicts:
    'INSERT INTO pack_verdicts (generation, hashes, rejections, broken_byte, broken_message, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (generation) DO UPDATE SET hashes = excluded.hashes, rejections = excluded.rejections, broken_byte = excluded.broken_byte, broken_message = excluded.broken_message, row_sum = excluded.row_sum',
  /** ?2 space */
  findUse: `SELECT ${WHOLE_PACK} FROM packs WHERE generation = ?1 AND space = ?2`,
  setUse:
    'UPDATE packs SET live_records = ?2, live_bytes = ?3, first_dead_at = ?4, dead_bytes = ?5, row_sum = row_sum + ?6 WHERE generation = ?1',
  /** ?2 now, ?3 at most */
  countActivePacks:
    'SELECT count(*) AS count FROM (SELECT 1 FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space = ?1 AND url_expires_at > ?2 LIMIT ?3)',
  findNextPackExpiry:
    'SELECT url_expires_at FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space = ?1 AND url_expires_at > ?2 ORDER BY url_expires_at LIMIT 1',
  sumReserved:
    'SELECT total(reserved_bytes) AS bytes, total(reserved_nodes) AS nodes FROM packs INDEXED BY packs_reserving WHERE reserved_bytes + reserved_nodes > 0 AND space = ?1',
  /** ?2 abandoned at, ?3 limit */
  findAbandonedPacks: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_unjudged WHERE state < 2 AND space = ?1 AND url_expires_at <= ?2 AND touched_at <= ?2 AND (state > 0 OR ${HAS_NO_RECORD}) LIMIT ?3`,
  findEmptiedPacks: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_empty WHERE state = 2 AND is_discarded = 0 AND live_records = 0 AND space = ?1 AND ${HAS_NO_RECORD} LIMIT ?2`,
  findForgettablePacks: `SELECT ${WHOLE_PACK} FROM packs INDEXED BY packs_discarded WHERE state = 2 AND is_discarded = 1 AND live_records = 0 AND space = ?1 AND touched_at <= ?2 AND ${HAS_NO_RECORD} LIMIT ?3`,
  /** ?1 generation, ?2 space, ?8 and ?9 the place as it was */
  moveRecord:
    'UPDATE contents SET pack = ?3, pack_offset = ?4, stored_length = ?5, codec = ?6, integrity = ?7, row_sum = ?10 WHERE generation = ?1 AND space = ?2 AND pack = ?8 AND pack_offset = ?9',
  insertPackedContent: `INSERT INTO contents (${CONTENT_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (generation) DO NOTHING`,
} as const;
