/** Every SQL statement of the SQLite engine, by name. `plans.test.ts` proves that none of the frequent ones scans. */
import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite';
import { DOMAIN_WEIGHTS, PURGED_WEIGHT, SEEN_WEIGHT } from '../../core/rows/row-sums.ts';
import { isDamageMet } from '../local-failure.ts';
import { FIND_KNOWN_NODES } from './absent-nodes.ts';
import { CONTENT_COLUMNS, PACK_READ_STATEMENTS, PACK_WRITE_STATEMENTS } from './packs/pack-statements.ts';

const ROW_COLUMNS = [
  ...['hash', 'state', 'size', 'canonical_size', 'content_type', 'refs', 'generation', 'storage'],
  ...['lease_started_at', 'lease_expires_at', 'child_ref_count', 'root_ref_count', 'held_domain_count'],
  ...['waiting_touched_at', 'claim_held_until', 'row_sum'],
];

/** The Space is in the sum of a row, so that a row whose key is wrong is damaged too. */
const READ_COLUMNS = ['space', ...ROW_COLUMNS];

const NODE_COLUMNS = [...READ_COLUMNS, 'coalesce(stored_size, canonical_size) AS stored_size'].join(', ');

/** for a join with contents */
export const JOINED_NODE_COLUMNS = [
  ...READ_COLUMNS.map((column) => `nodes.${column}`),
  'coalesce(nodes.stored_size, nodes.canonical_size) AS stored_size',
].join(', ');

export const JOINED_CONTENT_COLUMNS = [
  ...['contents.generation AS content_generation', 'contents.space AS content_space'],
  ...['contents.canonical_size AS content_canonical_size', 'contents.integrity', 'contents.inline_bytes'],
  ...['contents.url_expires_at', 'contents.pack', 'contents.pack_offset', 'contents.stored_length'],
  ...['contents.codec', 'contents.row_sum AS content_row_sum'],
].join(', ');

export const DOMAIN_COLUMNS =
  'id, space, domain, revision, history_floor, commit_count, balance_count, walked_from, walked_until, row_sum';
const HISTORY_COLUMNS = 'domain, hash, from_revision, balance, to_revision, superseded_at, row_sum';
export const UPLOAD_COLUMNS =
  'hash, generation, created_at, url_expires_at, touched_at, rejection_code, rejection_message, verdict, bad_code, bad_message, canonical_size, size, content_type, refs, integrity, inline, row_sum';
/** ?1 App */
export const COUNTERS_OF_APP =
  'SELECT id, row_sum, purged, node_count, ready_content_bytes, ready_stored_bytes, waiting_bytes, not_ready_node_count, leased_count, lease_watermark FROM spaces WHERE app_id = ?1';

/** Bytes received in one Space (?1) that are not judged, and the room that packs have reserved for records they will publish. */
const PENDING_OF = (space: string): string =>
  `(SELECT total(canonical_size) FROM uploads INDEXED BY uploads_received WHERE space = ${space} AND canonical_size > 0)
 + (SELECT total(bytes) FROM packs INDEXED BY packs_received WHERE space = ${space} AND state = 0 AND bytes > 0 AND is_discarded = 0)
 + (SELECT total(reserved_bytes) FROM packs INDEXED BY packs_reserving WHERE space = ${space} AND reserved_bytes + reserved_nodes > 0)`;
const COMMITS_OF = (space: string): string =>
  `(SELECT total(commit_count) FROM domains WHERE space = ${space})`;
/** ?1 App */
export const SUM_HOLDINGS = `SELECT total(${PENDING_OF('spaces.id')}) AS pending_bytes, total(${COMMITS_OF('spaces.id')}) AS commit_rows FROM spaces WHERE app_id = ?1`;

/** Parameters are positional; `?1` is the Space's integer id unless the name says otherwise. */
const READ_STATEMENTS = {
  ...PACK_READ_STATEMENTS,
  beginReading: 'BEGIN',
  endReading: 'COMMIT',
  findStoreValue: 'SELECT name, value, row_sum FROM store WHERE name = ?1',
  findTombstone: 'SELECT noted_at, seen_at, row_sum FROM tombstones WHERE generation = ?1',
  findSpaceId: 'SELECT id, app_id, space_id, name_sum FROM spaces WHERE app_id = ?1 AND space_id = ?2',
  findSpaceById: 'SELECT id, app_id, space_id, name_sum FROM spaces WHERE id = ?1',
  findCounters:
    'SELECT id, row_sum, purged, node_count, ready_content_bytes, ready_stored_bytes, waiting_bytes, not_ready_node_count, leased_count, lease_watermark FROM spaces WHERE id = ?1',
  /** ?1 id after which, ?2 limit */
  listSpaces: 'SELECT id, app_id, space_id, purged FROM spaces WHERE id > ?1 ORDER BY id LIMIT ?2',
  /** ?3 App */
  listSpacesOfApp:
    'SELECT id, app_id, space_id, purged FROM spaces INDEXED BY spaces_by_app WHERE app_id = ?3 AND id > ?1 ORDER BY id LIMIT ?2',
  /** From the pages of an index alone, whole: those of the rows may be damaged. ?3 App, or NULL */
  listSpaceNames: `SELECT id, app_id, space_id FROM spaces INDEXED BY sqlite_autoindex_spaces_1
    WHERE id > ?1 AND (?3 IS NULL OR app_id = ?3) ORDER BY id LIMIT ?2`,
  countersOfApp: COUNTERS_OF_APP,
  sumHoldings: SUM_HOLDINGS,
  findHoldings: `SELECT ${PENDING_OF('?1')} AS pending_bytes, ${COMMITS_OF('?1')} AS commit_rows`,
  /** leases of rows with this `collectable` (?2) that expire in (?3, ?4] */
  countLeasesBetween:
    'SELECT count(*) AS count FROM nodes WHERE space = ?1 AND collectable = ?2 AND lease_expires_at > ?3 AND lease_expires_at <= ?4',
  findNode: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = ?1 AND hash = ?2`,
  hasNode: 'SELECT 1 AS known FROM nodes WHERE space = ?1 AND hash = ?2',
  findKnownNodes: FIND_KNOWN_NODES,
  findNodeWithContent: `SELECT ${JOINED_NODE_COLUMNS}, ${JOINED_CONTENT_COLUMNS} FROM nodes LEFT JOIN contents ON contents.generation = nodes.generation WHERE nodes.space = ?1 AND nodes.hash = ?2`,
  findUpload: `SELECT space, ${UPLOAD_COLUMNS} FROM uploads WHERE space = ?1 AND hash = ?2`,
  findContent: `SELECT ${CONTENT_COLUMNS} FROM contents WHERE generation = ?1`,
  /** ?1 generation */
  findContentPlace:
    'SELECT id, generation, space, canonical_size, integrity, url_expires_at, pack, pack_offset, stored_length, codec, row_sum FROM contents WHERE generation = ?1',
  /** ?1 id, ?2 the generation it is expected to have */
  findInlineBytes: 'SELECT inline_bytes FROM contents WHERE id = ?1 AND generation = ?2',
  /** what a domain without a row begins with: 0, but for rows that were restored from a backup */
  readFirstRevision: "SELECT name, value, row_sum FROM store WHERE name = 'first-revision'",
  findDomain: `SELECT ${DOMAIN_COLUMNS} FROM domains WHERE space = ?1 AND domain = ?2`,
  /** ?1 domain, ?2 after, ?3 limit */
  findBalances:
    'SELECT domain, hash, balance, from_revision, row_sum FROM balances WHERE domain = ?1 AND hash > ?2 ORDER BY hash LIMIT ?3',
  /** The last row up to ?2 of domain ?1, of whatever domain it says that it is. */
  findBalanceUntil:
    'SELECT domain, hash, balance, from_revision, row_sum FROM balances WHERE (domain, hash) <= (?1, ?2) ORDER BY domain DESC, hash DESC LIMIT 1',
  /** Without those that `findBalances` never meets. */
  countBalances: 'SELECT count(*) AS count FROM balances WHERE domain = ?1 AND hash > -9e999',
  /** The last row up to the place of domain ?1, hash ?2 and revision ?3, and the first behind it, of whatever domain they say that they are. */
  findHistoryUntil: `SELECT ${HISTORY_COLUMNS} FROM balance_history WHERE (domain, hash, from_revision) <= (?1, ?2, ?3) ORDER BY domain DESC, hash DESC, from_revision DESC LIMIT 1`,
  findHistoryAfter: `SELECT ${HISTORY_COLUMNS} FROM balance_history WHERE (domain, hash, from_revision) > (?1, ?2, ?3) ORDER BY domain, hash, from_revision LIMIT 1`,
  /** ?1 space, ?2 hash, ?3 limit */
  findNodesToScrub: `SELECT ${NODE_COLUMNS} FROM nodes WHERE (space, hash) > (?1, ?2) ORDER BY space, hash LIMIT ?3`,
  isUploadKnown: 'SELECT verdict FROM uploads WHERE generation = ?1',
  /** from the index alone */
  isContentKnown: 'SELECT id FROM contents WHERE generation = ?1',
  isContentThere: 'SELECT 1 AS there FROM contents WHERE id = ?1',
  isPackNamed: 'SELECT 1 AS known FROM contents INDEXED BY contents_by_pack WHERE pack = ?1 LIMIT 1',
  isDiscardKnown: 'SELECT 1 AS known FROM discards WHERE generation = ?1',
  /** ?1 the Space id after which to look: the next Space with anything of the kind, and its oldest */
  nextSpaceWaiting:
    'SELECT space, waiting_touched_at AS oldest FROM nodes WHERE state = 0 AND space > ?1 ORDER BY space, waiting_touched_at LIMIT 1',
  nextSpaceClaimed:
    'SELECT space, claim_held_until AS oldest FROM nodes INDEXED BY nodes_claimed WHERE state = 3 AND space > ?1 ORDER BY space, claim_held_until LIMIT 1',
  nextSpaceUploading:
    'SELECT space, url_expires_at AS oldest FROM uploads WHERE space > ?1 ORDER BY space, url_expires_at LIMIT 1',
  nextSpaceDiscarding:
    'SELECT space, due_at AS oldest FROM discards WHERE space > ?1 ORDER BY space, due_at LIMIT 1',
  nextSpaceRotten:
    'SELECT space FROM nodes INDEXED BY nodes_rotten WHERE state = 2 AND space > ?1 ORDER BY space LIMIT 1',
  /** ?2 no further than this */
  countRotten:
    'SELECT count(*) AS count FROM (SELECT 1 FROM nodes INDEXED BY nodes_rotten WHERE state = 2 AND space = ?1 LIMIT ?2)',
  listRotten: 'SELECT hash FROM nodes INDEXED BY nodes_rotten WHERE state = 2 AND space = ?1 LIMIT ?2',
  /** ?2 when its URL ends, ?3 when it was touched, ?4 hash after which, ?5 rows */
  findUnseenUploads:
    'SELECT hash, generation, url_expires_at, touched_at FROM uploads INDEXED BY uploads_by_expiry WHERE space = ?1 AND url_expires_at >= ?2 AND (url_expires_at > ?2 OR touched_at > ?3 OR (touched_at = ?3 AND hash > ?4)) AND verdict IS NULL AND canonical_size IS NULL ORDER BY url_expires_at, touched_at, hash LIMIT ?5',
  hasAbandonedUpload:
    'SELECT 1 AS known FROM uploads WHERE space = ?1 AND url_expires_at <= ?2 AND touched_at <= ?2 LIMIT 1',
} as const;

/** ?1 name, ?2 value, ?3 sum */
export const SET_STORE_VALUE =
  'INSERT INTO store (name, value, row_sum) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET value = excluded.value, row_sum = excluded.row_sum';
/** Clients have seen domains, too, that these rows do not have. The next start gives the number its sum. ?1 step */
export const RAISE_FIRST_REVISION = `INSERT INTO store (name, value) VALUES ('first-revision', CAST(?1 AS TEXT))
  ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + ?1 AS TEXT), row_sum = NULL`;
/** A number that leaves the integers when it is raised is damaged, and its row is refused anyway. */
const isRaisable = (column: string): string => `${column} BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER}`;
/** Pages of earlier revisions are gone: no cursor from before is good any more. ?1 step */
export const RAISE_REVISIONS = `UPDATE domains SET revision = revision + ?1, history_floor = revision + ?1, row_sum = row_sum + ${DOMAIN_WEIGHTS.revision} * ?1 + ${DOMAIN_WEIGHTS.historyFloor} * (revision + ?1 - history_floor)
  WHERE id > 0 AND ${isRaisable('revision')} AND ${isRaisable('history_floor')} AND ${isRaisable('row_sum')}`;

export const WRITE_STATEMENTS = {
  ...PACK_WRITE_STATEMENTS,
  begin: 'BEGIN IMMEDIATE',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',
  savepoint: 'SAVEPOINT body',
  release: 'RELEASE body',
  rollbackTo: 'ROLLBACK TO body',

  insertSpace: 'INSERT INTO spaces (app_id, space_id, lease_watermark) VALUES (?1, ?2, ?3) RETURNING id',
  sealSpace: 'UPDATE spaces SET name_sum = ?2, row_sum = ?3 WHERE id = ?1',
  findWatermark: 'SELECT lease_watermark FROM spaces WHERE id = ?1',
  addCounters:
    'UPDATE spaces SET node_count = node_count + ?2, ready_content_bytes = ready_content_bytes + ?3, ready_stored_bytes = ready_stored_bytes + ?4, waiting_bytes = waiting_bytes + ?5, not_ready_node_count = not_ready_node_count + ?6, leased_count = leased_count + ?7, row_sum = row_sum + ?8 WHERE id = ?1',
  /** ?2 the new watermark, ?3 leases that end at or before it, ?4 the watermark as read */
  moveWatermark:
    'UPDATE spaces SET lease_watermark = ?2, leased_count = leased_count - ?3, row_sum = row_sum + ?5 WHERE id = ?1 AND lease_watermark = ?4',
  nextSpaceLeased:
    'SELECT id, lease_watermark FROM spaces INDEXED BY spaces_leased WHERE leased_count > 0 AND id > ?1 ORDER BY id LIMIT 1',
  /** the ?5-th lease that expires in (?3, ?4] of one flag */
  findLeaseAt:
    'SELECT lease_expires_at FROM nodes WHERE space = ?1 AND collectable = ?2 AND lease_expires_at > ?3 AND lease_expires_at <= ?4 ORDER BY lease_expires_at LIMIT 1 OFFSET ?5',

  insertNode:
    'INSERT INTO nodes (space, hash, state, size, canonical_size, content_type, refs, generation, storage, lease_started_at, lease_expires_at, child_ref_count, root_ref_count, held_domain_count, waiting_touched_at, claim_held_until, collectable, stored_size, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)',
  /** Only what each names is written, so that an index it does not name is not touched. `was` columns guard lost updates. */
  updateNodeLease:
    'UPDATE nodes SET lease_started_at = ?3, lease_expires_at = ?4, row_sum = row_sum + ?7 WHERE space = ?1 AND hash = ?2 AND lease_expires_at = ?5 AND state = ?6',
  updateNodeCounts:
    'UPDATE nodes SET child_ref_count = ?3, root_ref_count = ?4, held_domain_count = ?5, row_sum = row_sum + ?8 WHERE space = ?1 AND hash = ?2 AND child_ref_count = ?6 AND root_ref_count = ?7',
  updateNode:
    'UPDATE nodes SET state = ?3, generation = ?4, storage = ?5, lease_started_at = ?6, lease_expires_at = ?7, child_ref_count = ?8, root_ref_count = ?9, held_domain_count = ?10, waiting_touched_at = ?11, claim_held_until = ?12, collectable = ?13, stored_size = ?14, row_sum = row_sum + ?20 WHERE space = ?1 AND hash = ?2 AND state = ?15 AND generation = ?16 AND lease_expires_at = ?17 AND child_ref_count = ?18 AND root_ref_count = ?19',
  deleteNode:
    'DELETE FROM nodes WHERE space = ?1 AND hash = ?2 AND state = ?3 AND generation = ?4 AND lease_expires_at = ?5 AND child_ref_count = ?6 AND root_ref_count = ?7',

  removeNode: 'DELETE FROM nodes WHERE space = ?1 AND hash = ?2',
  findParents: 'SELECT refs FROM nodes WHERE space = ?1 AND instr(refs, ?2) > 0',
  findBalancesOf:
    'SELECT balance FROM domains CROSS JOIN balances ON balances.domain = domains.id AND hash = ?2 WHERE space = ?1',
  findAnyNode: 'SELECT 1 AS known FROM nodes WHERE space = ?1 LIMIT 1',
  /** between ?2 and ?3 */
  findHashes: 'SELECT hash FROM nodes WHERE space = ?1 AND hash BETWEEN ?2 AND ?3',
  /** A Space may have a domain for each of its users: no more of them are asked. */
  isBalanced:
    'SELECT 1 AS known FROM balances WHERE domain IN (SELECT id FROM domains WHERE space = ?1 LIMIT 32) AND hash = ?2 LIMIT 1',

  findAnyLooseEdges: 'SELECT 1 AS known FROM loose_edges WHERE space = ?1 LIMIT 1',
  findLooseEdges: 'SELECT count, row_sum FROM loose_edges WHERE space = ?1 AND hash = ?2',
  setLooseEdges:
    'INSERT INTO loose_edges (space, hash, count, row_sum) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET count = excluded.count, row_sum = excluded.row_sum',
  deleteLooseEdges: 'DELETE FROM loose_edges WHERE space = ?1 AND hash = ?2',

  insertUpload: `INSERT INTO uploads (space, ${UPLOAD_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)`,
  updateUpload:
    'UPDATE uploads SET generation = ?3, created_at = ?4, url_expires_at = ?5, touched_at = ?6, rejection_code = ?7, rejection_message = ?8, verdict = ?9, bad_code = ?10, bad_message = ?11, canonical_size = ?12, size = ?13, content_type = ?14, refs = ?15, integrity = ?16, inline = ?17, row_sum = row_sum + ?20 WHERE space = ?1 AND hash = ?2 AND +generation = ?18 AND verdict IS ?19',
  /** another URL was signed or another lease called: no evidence is rewritten, the generation's index is not touched */
  touchUpload:
    'UPDATE uploads SET url_expires_at = ?3, touched_at = ?4, row_sum = row_sum + ?7 WHERE space = ?1 AND hash = ?2 AND +generation = ?5 AND verdict IS ?6',
  /** a PUT was completed: neither index is touched */
  finishUpload:
    'UPDATE uploads SET rejection_code = ?3, rejection_message = ?4, verdict = ?5, bad_code = ?6, bad_message = ?7, canonical_size = ?8, size = ?9, content_type = ?10, refs = ?11, integrity = ?12, inline = ?13, row_sum = row_sum + ?16 WHERE space = ?1 AND hash = ?2 AND +generation = ?14 AND verdict IS ?15',
  findAnyUpload: 'SELECT 1 AS known FROM uploads WHERE space = ?1 LIMIT 1',
  /** By the key of the row, as all changes of an upload: the index of generations may be damaged. */
  deleteUpload: 'DELETE FROM uploads WHERE space = ?1 AND hash = ?2 AND +generation = ?3',
  countActiveUploads:
    'SELECT count(*) AS count FROM (SELECT 1 FROM uploads WHERE space = ?1 AND url_expires_at > ?2 LIMIT ?3)',
  /** ?1 space, ?2 now */
  findNextUploadExpiry:
    'SELECT url_expires_at FROM uploads WHERE space = ?1 AND url_expires_at > ?2 ORDER BY url_expires_at LIMIT 1',

  /** ?1 generation */
  insertContent:
    'INSERT INTO contents (generation, space, canonical_size, integrity, inline_bytes, url_expires_at, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (generation) DO NOTHING',
  deleteContent:
    'DELETE FROM contents WHERE generation = ?1 AND space = ?2 RETURNING generation, space, canonical_size, integrity, url_expires_at, pack, pack_offset, stored_length, codec, row_sum',
  setDiscard:
    'INSERT INTO discards (generation, space, due_at, url_expires_at, row_sum) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET due_at = excluded.due_at, url_expires_at = excluded.url_expires_at, row_sum = excluded.row_sum',
  deleteDiscard: 'DELETE FROM discards WHERE generation = ?1 AND space = ?2',
  /** No object is deleted on the word of a discard alone: no content may name it. */
  findDiscards:
    'SELECT generation, space, due_at, url_expires_at, row_sum FROM discards WHERE space = ?1 AND due_at <= ?2 AND NOT EXISTS (SELECT 1 FROM contents WHERE contents.generation = discards.generation) AND NOT EXISTS (SELECT 1 FROM contents WHERE contents.pack = discards.generation) ORDER BY due_at, generation LIMIT ?3',
  findKeptDiscards:
    'SELECT generation, space, due_at, url_expires_at, row_sum FROM discards WHERE space = ?1 AND due_at > ?2 AND due_at <> url_expires_at ORDER BY due_at LIMIT ?3',

  findCandidates: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = ?1 AND collectable = 1 AND lease_expires_at <= ?2 ORDER BY lease_expires_at, hash LIMIT ?3`,
  clearCollectable: 'UPDATE nodes SET collectable = 0 WHERE space = ?1 AND hash = ?2',
  findClaimed: `SELECT ${NODE_COLUMNS} FROM nodes INDEXED BY nodes_claimed WHERE state = 3 AND space = ?1 AND claim_held_until <= ?2 ORDER BY claim_held_until, hash LIMIT ?3`,
  findAbandonedWaiting: `SELECT ${NODE_COLUMNS} FROM nodes WHERE state = 0 AND space = ?1 AND waiting_touched_at <= ?2 ORDER BY waiting_touched_at, hash LIMIT ?3`,
  findAbandonedUploads: `SELECT space, ${UPLOAD_COLUMNS} FROM uploads WHERE space = ?1 AND url_expires_at <= ?2 AND touched_at <= ?2 ORDER BY url_expires_at, touched_at, hash LIMIT ?3`,

  /** ?3 the revision that it begins with, ?4 until when it is walked */
  insertDomain:
    'INSERT INTO domains (space, domain, revision, history_floor, walked_until) VALUES (?1, ?2, ?3, ?3, ?4) RETURNING id',
  sealDomain: 'UPDATE domains SET row_sum = ?2 WHERE id = ?1',
  /** ?1 domain in all below */
  advanceRevision:
    'UPDATE domains SET revision = ?2, commit_count = commit_count + 1, balance_count = balance_count + ?3, walked_from = ?4, walked_until = ?5, row_sum = row_sum + ?6 WHERE id = ?1 AND revision = ?2 - 1',
  noteWalk: `UPDATE domains SET walked_until = ?2, row_sum = row_sum + ${DOMAIN_WEIGHTS.walkedUntil} * (?2 - walked_until) WHERE id = ?1`,
  /** Nearly every request is new: neither the table nor the index has it. As `findCommit` */
  mayKnowCommit:
    'SELECT 1 AS known WHERE EXISTS (SELECT 1 FROM root_ref_commits WHERE domain = ?1 AND request_id = ?2) OR EXISTS (SELECT 1 FROM root_ref_commits INDEXED BY root_ref_commits_by_key WHERE request_key = ?3)',
  /** By either key: one wrong bit in a row leaves one of them right. ?3 the second key */
  findCommit:
    'SELECT domain, request_id, payload_digest, revision, row_sum FROM root_ref_commits WHERE (domain = ?1 AND request_id = ?2) OR request_key = ?3',
  /** The index alone: what it has, and the table has not, is damaged. */
  isCommitIndexed:
    'SELECT 1 AS known FROM root_ref_commits INDEXED BY root_ref_commits_by_key WHERE domain = ?1 AND request_id = ?2 AND request_key = ?3',
  insertCommit:
    'INSERT INTO root_ref_commits (domain, request_id, payload_digest, revision, request_key, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)',
  findBalance: 'SELECT balance, from_revision, row_sum FROM balances WHERE domain = ?1 AND hash = ?2',
  insertHistory:
    'INSERT INTO balance_history (domain, hash, from_revision, to_revision, balance, superseded_at, row_sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)',
  insertBalance:
    'INSERT INTO balances (domain, hash, balance, from_revision, row_sum) VALUES (?1, ?2, ?3, ?4, ?5)',
  updateBalance:
    'UPDATE balances SET balance = ?3, from_revision = ?4, row_sum = ?7 WHERE domain = ?1 AND hash = ?2 AND balance = ?5 AND from_revision = ?6',
  deleteBalance:
    'DELETE FROM balances WHERE domain = ?1 AND hash = ?2 AND balance = ?3 AND from_revision = ?4',
  /** ?1 superseded at or before, ?2 limit */
  findOldHistory: `SELECT ${HISTORY_COLUMNS} FROM balance_history WHERE superseded_at <= ?1 ORDER BY superseded_at LIMIT ?2`,
  raiseHistoryFloor: `UPDATE domains SET history_floor = max(history_floor, ?2), row_sum = row_sum + ${DOMAIN_WEIGHTS.historyFloor} * (max(history_floor, ?2) - history_floor) WHERE id = ?1`,
  deleteHistory: 'DELETE FROM balance_history WHERE domain = ?1 AND hash = ?2 AND from_revision = ?3',

  /** ?1 id after which, ?2 limit */
  findDomainsAfter: `SELECT ${DOMAIN_COLUMNS} FROM domains WHERE id > ?1 ORDER BY id LIMIT ?2`,
  /** ?1 domain, here and below; ?2 when at the latest */
  findCommitMark:
    'SELECT marked_at, revision, row_sum FROM commit_marks WHERE domain = ?1 AND marked_at <= ?2 ORDER BY marked_at DESC LIMIT 1',
  insertCommitMark:
    'INSERT INTO commit_marks (domain, marked_at, revision, row_sum) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING',
  deleteCommitMarks: 'DELETE FROM commit_marks WHERE domain = ?1 AND marked_at <= ?2',
  /** ?2 request after which, ?3 limit */
  findCommitsAfter:
    'SELECT domain, request_id, payload_digest, revision, row_sum FROM root_ref_commits WHERE domain = ?1 AND request_id > ?2 ORDER BY request_id LIMIT ?3',
  /** ?3 the last revision that may go: a purge may have let the request be sent anew */
  deleteCommit: 'DELETE FROM root_ref_commits WHERE domain = ?1 AND request_id = ?2 AND revision <= ?3',
  /** ?2 how many, ?3 the floor of the history */
  forgetCommits: `UPDATE domains SET commit_count = commit_count - ?2, history_floor = max(history_floor, ?3), row_sum = row_sum - ${DOMAIN_WEIGHTS.commitCount} * ?2 + ${DOMAIN_WEIGHTS.historyFloor} * (max(history_floor, ?3) - history_floor) WHERE id = ?1`,

  /** of a purge: cursors of earlier revisions find no history */
  closeDomains: `UPDATE domains SET history_floor = revision + 1, revision = revision + 1, row_sum = row_sum + ${DOMAIN_WEIGHTS.revision} + ${DOMAIN_WEIGHTS.historyFloor} * (revision + 1 - history_floor) WHERE space = ?1`,
  /** ?2 limit */
  findAnyBalances:
    'SELECT balances.hash FROM domains CROSS JOIN balances ON balances.domain = domains.id WHERE domains.space = ?1 LIMIT ?2',
  /** ?2 hash; before `deleteBalancesOf` */
  discountBalancesOf: `UPDATE domains SET balance_count = balance_count - 1, row_sum = row_sum - ${DOMAIN_WEIGHTS.balanceCount} WHERE space = ?1 AND EXISTS (SELECT 1 FROM balances WHERE balances.domain = domains.id AND hash = ?2)`,
  deleteBalancesOf:
    'DELETE FROM balances WHERE domain IN (SELECT id FROM domains WHERE space = ?1) AND hash = ?2',
  /** ?2 limit; of what was committed since `closeDomains`, nothing */
  deleteAnyHistory:
    'DELETE FROM balance_history WHERE (domain, hash, from_revision) IN (SELECT balance_history.domain, hash, from_revision FROM domains CROSS JOIN balance_history ON balance_history.domain = domains.id WHERE domains.space = ?1 AND to_revision <= history_floor LIMIT ?2)',
  deleteAnyCommits:
    'DELETE FROM root_ref_commits WHERE (domain, request_id) IN (SELECT root_ref_commits.domain, request_id FROM domains CROSS JOIN root_ref_commits ON root_ref_commits.domain = domains.id WHERE domains.space = ?1 AND root_ref_commits.revision <= history_floor LIMIT ?2)',

  recountCommits: `UPDATE domains SET commit_count = known.commits, row_sum = row_sum + ${DOMAIN_WEIGHTS.commitCount} * (known.commits - commit_count) FROM (SELECT id, (SELECT count(*) FROM root_ref_commits WHERE domain = domains.id) AS commits FROM domains WHERE space = ?1) AS known WHERE domains.id = known.id`,
  notePurged: `UPDATE spaces SET purged = 1, row_sum = row_sum + ${PURGED_WEIGHT} * (1 - purged) WHERE id = ?1`,

  insertStoreValue: 'INSERT INTO store (name, value, row_sum) VALUES (?1, ?2, ?3)',
  setStoreValue: SET_STORE_VALUE,
  noteTombstone: `INSERT INTO tombstones (generation, noted_at, seen_at, row_sum) VALUES (?1, ?2, ?2, ?3) ON CONFLICT (generation) DO UPDATE SET seen_at = excluded.seen_at, row_sum = row_sum + ${SEEN_WEIGHT} * (excluded.seen_at - seen_at)`,
  deleteTombstone: 'DELETE FROM tombstones WHERE generation = ?1',
  deleteOldTombstones: 'DELETE FROM tombstones WHERE seen_at < ?1',
  raiseFirstRevision: RAISE_FIRST_REVISION,
  raiseRevisions: RAISE_REVISIONS,
  deleteStoreValue: 'DELETE FROM store WHERE name = ?1',
} as const;

const ALL_STATEMENTS = { ...READ_STATEMENTS, ...WRITE_STATEMENTS };

/** One row as SQLite gives it: column name → number, string, bytes or null. */
export type SqlRow = Record<string, unknown>;
type Prepared = Statement<SqlRow, SQLQueryBindings[]>;
export type ReadStatements = { readonly [Name in keyof typeof READ_STATEMENTS]: Prepared };
export type Statements = { readonly [Name in keyof typeof ALL_STATEMENTS]: Prepared };

/** The id of a Space without a row: no row has it. */
export const NO_SPACE = 0;

export function prepareReads(database: Database): ReadStatements {
  return prepare(database, READ_STATEMENTS);
}

export function prepareAll(database: Database): Statements {
  return prepare(database, ALL_STATEMENTS);
}

/**
 * SQLite reads a bare parameter while it plans a join, a range or a LIMIT, and then plans anew whenever a value is bound: up to 20 µs, where
 * the statement takes 2. It does not look behind a sign, which changes no value of any type.
 */
const planOnce = (sql: string): string => sql.replaceAll(/\?\d+/g, '+$&');

function prepare<T extends Record<string, string>>(
  database: Database,
  table: T,
): { readonly [Name in keyof T]: Prepared } {
  const prepared: Record<string, Prepared> = {};
  for (const [name, sql] of Object.entries(table)) prepared[name] = database.prepare(planOnce(sql));
  return prepared as { readonly [Name in keyof T]: Prepared };
}

export function endReading(database: Database, sql: ReadStatements): void {
  try {
    // SQLite may have ended it by itself, after a disk error that the reader gets.
    if (database.inTransaction) sql.endReading.run();
  } catch {
    // After a read that failed by damage or a disk error, which its reader got: there is nothing to commit.
    if (database.inTransaction) database.run('ROLLBACK');
  }
}

/**
 * Whether a record that could not be read is perhaps whole, on a page that can be read: the index is damaged, or leads to a row that the
 * table, whose rows are out of order, does not find. A repair then finds it. Says false while the damaged page is in memory.
 */
export function isRecordHidden(
  { isContentKnown, isContentThere }: ReadStatements,
  generation: Uint8Array,
): boolean {
  const isThere = (id: number) => ifReadable(() => isContentThere.get(id));
  const known = ifReadable(() => isContentKnown.get(generation));
  return known === undefined || known === null || isThere(known.id as number) === null;
}

/** undefined: damage is in the way */
function ifReadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isDamageMet(error)) return undefined;
    throw error;
  }
}

/** A connection with a statement left is not closed, and SQLite then neither checkpoints nor lets go of its locks. */
export function finalize(statements: ReadStatements): void {
  for (const statement of Object.values(statements)) statement.finalize();
}

/** For the proof that no statement scans: all but the transaction verbs. */
export function explainableStatements(): [string, string][] {
  return Object.entries(ALL_STATEMENTS)
    .filter(([, sql]) => /^(SELECT|INSERT|UPDATE|DELETE)/.test(sql))
    .map(([name, sql]) => [name, planOnce(sql)]);
}
