/**
 * Every SQL statement on the tables of Spaces, by name. `$1` is the Space, except in statements of background work.
 * plans.test.ts explains each on full tables: none may scan a table, and those of a Space only use indexes that begin with it.
 */
import { APP_TOTAL_STATEMENTS, holdingsOf } from './app-total-statements.ts';
import { COMMIT_RECORD_STATEMENTS } from './commit-record-statements.ts';
import { ADD_TO_SLOT, COUNTER_COLUMNS, countLeases, SLOT_COLUMNS, SLOT_SUMS } from './counter-statements.ts';
import { MENDING_STATEMENTS, NEAR_SPACE_STATEMENTS } from './mending-statements.ts';
import {
  activeCount,
  CONTENT_JOINED,
  PACK_BACKGROUND_STATEMENTS,
  PACK_STATEMENTS,
  withContent,
} from './packs/pack-statements.ts';
import { ROOT_REF_STATEMENTS } from './root-ref-statements.ts';
import { NODE_IS_PROVEN, PURGED_SUM, SUM_OF_ENDED, sumOfDomain, sumOfRenewed } from './row-sums.ts';
import {
  arraysOf,
  columnsOf,
  given,
  guarded,
  isGiven,
  nowOr,
  seek,
  spaceNamesOf,
  walkOf,
} from './sql-fragments.ts';
import { OWN_SCHEMA, OWN_SESSION } from './wire/session.ts';

export const NODE_COLUMNS =
  'hash, generation, size, canonical_size, lease_started_at, lease_expires_at, child_ref_count, root_ref_count, waiting_touched_at, claim_held_until, held_domain_count, state, inline, collectable, lease_counted, content_type, refs, stored_size, packed, fixed_sum, row_sum';
export const UPLOAD_COLUMNS =
  'hash, generation, created_at, url_expires_at, touched_at, active_at, canonical_size, size, verdict, inline, rejection_code, rejection_message, bad_code, bad_message, content_type, refs, integrity, row_sum';
const NODE_ARRAYS =
  '$2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::integer[], $13::smallint[], $14::boolean[], $15::boolean[], $16::boolean[], $17::text[], $18::bytea[], $19::bigint[], $20::boolean[], $21::bigint[], $22::bigint[]';
const UPLOAD_ARRAYS =
  '$2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::smallint[], $11::boolean[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::bytea[], $19::bigint[]';

/** No history ends behind the latest revision, whatever a row says. */
const HISTORY_KEY = 'domain, hash, from_revision';
const RAISED_FLOOR = 'greatest(domains.history_floor, least(floors.until, domains.revision))';

/**
 * The new `lease_due_at`: the end of the lease if the indexes that begin with it are changed anyway; otherwise it stays. It is never
 * after the end.
 */
const dueOf = (expires: string, entersIndex: string): string =>
  `CASE WHEN ${entersIndex} THEN ${expires} ELSE least(nodes.lease_due_at, ${expires}) END`;

/** OFFSET 0: one seek for each hash, and never a list of all nodes of the Space. */
const HAS_NODE = 'EXISTS (SELECT FROM nodes WHERE nodes.space = $1 AND nodes.hash = asked.hash OFFSET 0)';
const GIVEN_HASHES = given('hash', '$2::bytea[]');
const seekHashes = (found: string): string => seek('hash', '$2::bytea[]', found);
const NODES_WITH_CONTENT = `SELECT ${columnsOf('nodes', NODE_COLUMNS)}, ${CONTENT_JOINED} FROM ${OWN_SCHEMA}nodes AS nodes ${withContent(OWN_SCHEMA)} WHERE nodes.space = $1`;

const LOCK_TO_RENEW = `SELECT space, hash, given.duration, lease_started_at, lease_expires_at, lease_counted, ${NODE_IS_PROVEN} AS proven
      FROM nodes WHERE space = $1 AND hash = given.hash AND state = 1 FOR UPDATE`;

/** Statements of requests: each stays within one Space, by index. */
export const SPACE_STATEMENTS = {
  ...PACK_STATEMENTS,
  ...ROOT_REF_STATEMENTS,
  ...MENDING_STATEMENTS,
  findNode: `SELECT ${NODE_COLUMNS} FROM ${OWN_SCHEMA}nodes WHERE space = $1 AND hash = $2`,
  findNodeWithContent: `${NODES_WITH_CONTENT} AND nodes.hash = $2`,
  findNodesWithContent: seekHashes(`${NODES_WITH_CONTENT} AND nodes.hash = given.hash OFFSET 0`),
  findUpload: `SELECT ${UPLOAD_COLUMNS} FROM ${OWN_SCHEMA}uploads WHERE space = $1 AND hash = $2`,

  /** $2 a clock or NULL. One statement, so one instant. */
  readCounters: `WITH clock AS MATERIALIZED (SELECT ${nowOr('$2')} AS now),
    slots AS MATERIALIZED (SELECT ${SLOT_COLUMNS} FROM usage_counters WHERE space = $1),
    leases AS MATERIALIZED (SELECT
      (SELECT count(*) FROM nodes WHERE space = $1 AND lease_counted AND lease_due_at <= clock.now
        AND lease_expires_at <= clock.now) AS ended_count,
      -- Only where the clock has stepped back behind what upkeep has already taken out: a walk over the Space.
      CASE WHEN (SELECT max(lease_watermark) FROM slots) > clock.now THEN
        (SELECT count(*) FROM nodes WHERE space = $1 AND NOT lease_counted AND lease_expires_at > clock.now)
      ELSE 0 END AS resumed_count FROM clock)
    SELECT slots.*, leases.* FROM leases LEFT JOIN slots ON true`,

  /**
   * core/node-row.ts renewLease for many rows: $2 hashes, $3 durations, $4 a clock or NULL, $5 slot, $6 its sum when empty. Rows are
   * locked in the order of $2, read after the lock, and written only where the expiry grows. A lease that is counted changes no indexed column.
   */
  renewReadyLeases: `WITH clock AS MATERIALIZED (SELECT ${nowOr('$4')} AS now),
    locked AS MATERIALIZED (${seek('hash, duration', '$2::bytea[], $3::bigint[]', LOCK_TO_RENEW)}),
    wanted AS MATERIALIZED (
      SELECT space, hash, proven, lease_counted, lease_expires_at AS was,
        CASE WHEN lease_expires_at > clock.now THEN lease_started_at ELSE clock.now END AS started,
        greatest(lease_expires_at, greatest(clock.now, lease_started_at) + duration) AS expires
      FROM locked CROSS JOIN clock),
    renewed AS (
      UPDATE nodes SET lease_started_at = wanted.started, lease_expires_at = wanted.expires, lease_counted = true,
        lease_due_at = ${dueOf('wanted.expires', 'NOT nodes.lease_counted')}, row_sum = ${sumOfRenewed('wanted.started', 'wanted.expires')}
      FROM wanted WHERE ${isGiven('nodes', 'hash', 'wanted')} AND wanted.proven AND wanted.expires > wanted.was),
    counted AS (
      ${countLeases('$5', '$6', 'count(*)', '0')} FROM wanted
      WHERE proven AND NOT lease_counted AND expires > was HAVING count(*) > 0 ${ADD_TO_SLOT})
    SELECT hash, started, expires, proven FROM wanted WHERE ${OWN_SESSION}`,

  lockNode: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND hash = $2 FOR UPDATE`,
  lockNodes: seekHashes(
    `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND hash = given.hash FOR UPDATE`,
  ),
  /** The hashes of $2 that have a row now; run after their loose edges were locked */
  findAppeared: `SELECT hash FROM unnest($2::bytea[]) AS asked (hash) WHERE ${HAS_NODE}`,
  insertNodes: `INSERT INTO nodes (space, ${NODE_COLUMNS}, lease_due_at)
    SELECT $1::uuid, given.*, given.lease_expires_at FROM unnest(${NODE_ARRAYS}) AS given (${NODE_COLUMNS})`,
  /** Each writes only the columns it names, so that other indexes are not touched. The last parameter: how many rows. */
  updateNodeLeases: guarded(
    `WITH ${given(
      'hash, started, expires, counted, fixed, sum',
      '$2::bytea[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[], $7::bigint[]',
    )}
     UPDATE nodes SET lease_started_at = given.started, lease_expires_at = given.expires, lease_counted = given.counted,
       lease_due_at = ${dueOf('given.expires', 'given.counted AND NOT nodes.lease_counted')},
       fixed_sum = given.fixed, row_sum = given.sum FROM given WHERE ${isGiven('nodes', 'hash')}`,
    '$8::bigint',
  ),
  updateNodeCounts: guarded(
    `WITH ${given(
      'hash, children, roots, domains, collectable, fixed, sum',
      '$2::bytea[], $3::bigint[], $4::bigint[], $5::integer[], $6::boolean[], $7::bigint[], $8::bigint[]',
    )}
     UPDATE nodes SET child_ref_count = given.children, root_ref_count = given.roots, held_domain_count = given.domains,
       collectable = given.collectable, fixed_sum = given.fixed, row_sum = given.sum,
       lease_due_at = ${dueOf('nodes.lease_expires_at', 'given.collectable AND NOT nodes.collectable')} FROM given WHERE ${isGiven('nodes', 'hash')}`,
    '$9::bigint',
  ),
  updateNodes: guarded(
    `WITH ${given(NODE_COLUMNS, NODE_ARRAYS)}
     UPDATE nodes SET generation = given.generation, lease_started_at = given.lease_started_at,
       lease_expires_at = given.lease_expires_at, child_ref_count = given.child_ref_count,
       root_ref_count = given.root_ref_count, waiting_touched_at = given.waiting_touched_at,
       claim_held_until = given.claim_held_until, held_domain_count = given.held_domain_count, state = given.state,
       inline = given.inline, collectable = given.collectable, lease_counted = given.lease_counted,
       stored_size = given.stored_size, packed = given.packed, fixed_sum = given.fixed_sum, row_sum = given.row_sum,
       lease_due_at = ${dueOf('given.lease_expires_at', '(given.lease_counted AND NOT nodes.lease_counted) OR (given.collectable AND NOT nodes.collectable)')}
     FROM given WHERE ${isGiven('nodes', 'hash')}`,
    '$23::bigint',
  ),
  deleteNodes: guarded(
    `WITH ${GIVEN_HASHES} DELETE FROM nodes USING given WHERE ${isGiven('nodes', 'hash')}`,
    '$3::bigint',
  ),

  /** Locks hashes that have no row, in hash order, by a record that is made if there is none. */
  lockLooseEdges: `INSERT INTO loose_edges (space, hash, count)
    SELECT $1::uuid, hash, 0 FROM unnest($2::bytea[]) AS asked (hash) ORDER BY hash
    ON CONFLICT (space, hash) DO UPDATE SET count = loose_edges.count RETURNING hash, count, row_sum`,
  /** The same for those of $2 that have no row. */
  lockAbsent: `INSERT INTO loose_edges (space, hash, count)
    SELECT $1::uuid, hash, 0 FROM unnest($2::bytea[]) AS asked (hash)
    WHERE NOT ${HAS_NODE} ORDER BY hash
    ON CONFLICT (space, hash) DO UPDATE SET count = loose_edges.count RETURNING hash, count, row_sum`,
  setLooseEdges: `INSERT INTO loose_edges (space, hash, count, row_sum)
    SELECT $1::uuid, given.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS given (hash, count, row_sum) ORDER BY hash
    ON CONFLICT (space, hash) DO UPDATE SET count = excluded.count, row_sum = excluded.row_sum`,
  deleteLooseEdges: `WITH ${GIVEN_HASHES} DELETE FROM loose_edges USING given WHERE ${isGiven('loose_edges', 'hash')}`,

  lockUpload: `SELECT ${UPLOAD_COLUMNS} FROM uploads WHERE space = $1 AND hash = $2 FOR UPDATE`,
  lockUploads: seekHashes(
    `SELECT ${UPLOAD_COLUMNS} FROM uploads WHERE space = $1 AND hash = given.hash FOR UPDATE`,
  ),
  insertUploads: `INSERT INTO uploads (space, ${UPLOAD_COLUMNS}) SELECT $1::uuid, given.* FROM unnest(${UPLOAD_ARRAYS}) AS given`,
  updateUploads: guarded(
    `WITH ${given(UPLOAD_COLUMNS, UPLOAD_ARRAYS)} UPDATE uploads SET ${UPLOAD_COLUMNS.split(', ')
      .slice(1)
      .map((column) => `${column} = given.${column}`)
      .join(', ')}
     FROM given WHERE ${isGiven('uploads', 'hash')}`,
    '$20::bigint',
  ),
  deleteUploads: guarded(
    `WITH ${GIVEN_HASHES} DELETE FROM uploads USING given WHERE ${isGiven('uploads', 'hash')}`,
    '$3::bigint',
  ),
  /** Taken last, by transactions that store more in a Space with a quota: they run one after another from here on. */
  lockSpace: 'SELECT 1 AS locked FROM spaces WHERE space = $1 FOR NO KEY UPDATE',
  readSlots: `SELECT ${SLOT_COLUMNS} FROM usage_counters WHERE space = $1`,
  sumHoldings: `SELECT ${holdingsOf('$1::uuid')}`,
  /** $2 a clock or NULL, $3 at most */
  countActiveUploads: `SELECT ${activeCount(nowOr('$2'))} AS count`,
  /** The same for a hash ($4) that has neither row nor upload; no row otherwise, and nothing is counted then. */
  countActiveUploadsForNew: `SELECT ${activeCount(nowOr('$2'))} AS count
    WHERE NOT EXISTS (SELECT FROM nodes WHERE space = $1 AND hash = $4)
      AND NOT EXISTS (SELECT FROM uploads WHERE space = $1 AND hash = $4)`,

  setDiscards: `INSERT INTO discards (space, generation, due_at, url_expires_at, row_sum)
    SELECT $1::uuid, given.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[]) AS given
    ON CONFLICT (space, generation) DO UPDATE SET due_at = excluded.due_at, url_expires_at = excluded.url_expires_at,
      row_sum = excluded.row_sum`,
  deleteDiscards: `WITH ${given('generation', '$2::bytea[]')}
    DELETE FROM discards USING given WHERE ${isGiven('discards', 'generation')}`,
  // From here on: $2 instant, $3 limit, $4 nodes left out, $5 first expiry (of `lease_due_at`). Rows that others locked are skipped.
  findDiscards: `SELECT generation, due_at, url_expires_at, row_sum FROM discards WHERE space = $1 AND due_at <= $2
      AND NOT EXISTS (SELECT FROM contents WHERE contents.space = $1 AND contents.generation = discards.generation)
      AND NOT EXISTS (SELECT FROM contents WHERE contents.space = $1 AND contents.pack = discards.generation)
    ORDER BY due_at, generation LIMIT $3`,
  findKeptDiscards: `SELECT generation, due_at, url_expires_at, row_sum FROM discards
    WHERE space = $1 AND due_at > $2 AND due_at <> url_expires_at ORDER BY due_at, generation LIMIT $3`,
  findCandidates: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND collectable AND lease_due_at <= ${nowOr('$2')}
      AND lease_expires_at <= ${nowOr('$2')} AND NOT hash = ANY ($4::bytea[]) AND lease_due_at >= $5
    ORDER BY lease_due_at, hash LIMIT $3 FOR UPDATE SKIP LOCKED`,
  /** For renewed candidates the bound becomes the end, so that they are found in the order of their ends. CASE keeps to counted leases. */
  moveCandidates: `WITH due AS MATERIALIZED (
      SELECT hash FROM nodes WHERE space = $1 AND lease_counted AND lease_due_at <= ${nowOr('$2')} AND ${NODE_IS_PROVEN}
      AND CASE WHEN collectable THEN lease_due_at < lease_expires_at ELSE false END ORDER BY lease_due_at LIMIT $3 FOR UPDATE SKIP LOCKED),
    ${given('hash', arraysOf('due', 'hash'))} UPDATE nodes SET lease_due_at = lease_expires_at FROM given WHERE ${isGiven('nodes', 'hash')}`,
  findClaimed: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND state = 3 AND claim_held_until <= $2
      AND NOT hash = ANY ($4::bytea[])
    ORDER BY claim_held_until, hash LIMIT $3 FOR UPDATE SKIP LOCKED`,
  findAbandonedWaiting: `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND state = 0 AND waiting_touched_at <= $2
      AND NOT hash = ANY ($4::bytea[])
    ORDER BY waiting_touched_at, hash LIMIT $3 FOR UPDATE SKIP LOCKED`,
  findAbandonedUploads: `SELECT ${UPLOAD_COLUMNS} FROM uploads WHERE space = $1 AND url_expires_at <= $2 AND touched_at <= $2
    ORDER BY url_expires_at, touched_at, hash LIMIT $3 FOR UPDATE SKIP LOCKED`,

  /**
   * $2 appId, $3 spaceId: names are written with the first row of a Space. They never change, because the key is their digest: others
   * than these are damaged. Right ones are left alone by the SELECT: a conflict locks a row, whatever the last WHERE says, and each process
   * writes the names once, so that two of them would wait for each other.
   */
  insertSpace: `INSERT INTO spaces (space, app_id, space_id) SELECT $1::uuid, $2, $3
      WHERE NOT EXISTS (SELECT FROM spaces WHERE space = $1::uuid AND (app_id, space_id) IS NOT DISTINCT FROM ($2, $3)) ON CONFLICT (space)
    DO UPDATE SET app_id = excluded.app_id, space_id = excluded.space_id
    WHERE spaces.app_id <> excluded.app_id OR spaces.space_id <> excluded.space_id`,
  /** The permits from $2 to $3, in this order; made where there are none. */
  takePermits: `INSERT INTO upload_permits (space, permit)
    SELECT $1::uuid, permit FROM generate_series($2::integer, $3::integer) AS permit ORDER BY permit
    ON CONFLICT (space, permit) DO UPDATE SET permit = excluded.permit WHERE false`,
  /** The permit $2, if it has been made, for a hash ($3) that has neither row nor upload; otherwise nothing is held. */
  takePermitForNew: `SELECT 1 AS taken FROM upload_permits WHERE space = $1 AND permit = $2
      AND NOT EXISTS (SELECT FROM nodes WHERE space = $1 AND hash = $3)
      AND NOT EXISTS (SELECT FROM uploads WHERE space = $1 AND hash = $3) FOR UPDATE OF upload_permits`,

  /** $2 slot, then the deltas in the order of the columns, and the sum of a slot that holds only these */
  addCounters: `INSERT INTO usage_counters (space, slot, ${COUNTER_COLUMNS}, lease_watermark, row_sum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9) ${ADD_TO_SLOT}`,
  /** Upkeep of leases that are due ($2 now, $4 at most): those that ended leave the counter, in slot $3, whose sum is $5 when empty. */
  endLeases: `WITH due AS MATERIALIZED (
      SELECT hash FROM nodes WHERE space = $1 AND lease_counted AND lease_due_at <= $2 AND ${NODE_IS_PROVEN}
      ORDER BY lease_due_at LIMIT $4 FOR UPDATE SKIP LOCKED),
    ${given('hash', arraysOf('due', 'hash'))},
    settled AS (
      UPDATE nodes SET lease_due_at = lease_expires_at, lease_counted = lease_expires_at > $2,
        row_sum = CASE WHEN lease_expires_at > $2 THEN row_sum ELSE ${SUM_OF_ENDED} END FROM given WHERE ${isGiven('nodes', 'hash')}
      RETURNING lease_expires_at, lease_counted),
    counted AS (
      ${countLeases('$3', '$5', '-count(*)', 'max(lease_expires_at)')} FROM settled
      WHERE NOT lease_counted HAVING count(*) > 0 ${ADD_TO_SLOT})
    SELECT count(*) AS count FROM settled`,
  /** $2 domains, $3 hashes, $4 and $5 from and to which revision. The floor rises with what goes. */
  deleteHistory: `WITH ${given('domain, hash, from_revision, until', '$2::text[], $3::bytea[], $4::bigint[], $5::bigint[]')},
    floors AS MATERIALIZED (SELECT space, domain, max(until) AS until FROM given GROUP BY space, domain),
    raised AS (
      UPDATE domains SET history_floor = ${RAISED_FLOOR}, row_sum = ${sumOfDomain('domains.revision', RAISED_FLOOR)}
      FROM floors WHERE ${isGiven('domains', 'domain', 'floors')})
    DELETE FROM balance_history USING given WHERE ${isGiven('balance_history', HISTORY_KEY)}`,
} as const;

/** Rows that are due, oldest first, from a point on: $1 until when, $2 and $3 after which instant and Space, $4 rows. */
const dueSpaces = (column: string, table: string, condition = 'true'): string =>
  `WITH due AS MATERIALIZED (
     SELECT ${column} AS due_at, space FROM ${table} WHERE ${condition} AND ${column} <= $1
       AND (${column}, space) > ($2::bigint, $3::uuid) ORDER BY ${column}, space LIMIT $4),
   found AS (SELECT space, min(due_at) AS due_at FROM due GROUP BY space),
   last AS (SELECT due_at, space FROM due ORDER BY due_at DESC, space DESC LIMIT 1)
   SELECT found.space, found.due_at, ${spaceNamesOf('found')}, (SELECT count(*) FROM due) AS passed,
     last.due_at AS last_due_at, last.space AS last_space
   FROM found CROSS JOIN last ORDER BY found.due_at, found.space`;

/** OFFSET 0: in the order of one index, and no further than the page. */
const unseenIn = (table: string, endsAt: string, names: string, condition: string): string =>
  `SELECT ${endsAt} AS ends_at, space, generation, ${names} FROM (SELECT * FROM ${table} WHERE ${endsAt} >= $1
     AND (${endsAt}, space, generation) > ($1::bigint, $2::uuid, $3::bytea) ORDER BY ${endsAt}, space, generation OFFSET 0) AS open
     WHERE ${condition} LIMIT $4`;

const ENDED_COUNT = `(SELECT count(*) FROM nodes, clock
       WHERE nodes.space = page.space AND lease_counted AND lease_due_at <= clock.now AND lease_expires_at <= clock.now)`;

/** Spaces with their counters, as `readCounters` gives those of one; the clock has not stepped back. */
const listedSpaces = (condition: string, endedCount = ENDED_COUNT): string =>
  `WITH clock AS MATERIALIZED (SELECT ${nowOr('$3')} AS now)
   SELECT page.*, sums.*, ${holdingsOf('page.space')}, 0 AS resumed_count, ${endedCount} AS ended_count
   FROM (SELECT space, app_id, space_id, purged FROM spaces WHERE ${condition} ORDER BY space LIMIT $2) AS page
   CROSS JOIN LATERAL (
     SELECT ${SLOT_SUMS} FROM usage_counters WHERE usage_counters.space = page.space) AS sums
   ORDER BY page.space`;

/** Every domain of the Space with every hash that is taken, as lists: for as many as PostgreSQL expects it would read all balances. */
const IN_EACH_DOMAIN = `given AS MATERIALIZED (SELECT $1::uuid AS space, domain, hash
      FROM unnest(ARRAY(SELECT domain FROM domains WHERE space = $1)) AS each (domain)
      CROSS JOIN unnest(ARRAY(SELECT hash FROM taken)) AS list (hash))`;

/** By their keys: a place is one of every part of a table. $2 rows; for a number that PostgreSQL does not know it would sort all. */
const deleteAny = (table: string, key: string, revision: string): string =>
  `WITH first AS MATERIALIZED (SELECT * FROM (
      SELECT ${columnsOf('old', key)} FROM ${table} AS old LEFT JOIN LATERAL (
        SELECT history_floor FROM domains WHERE domains.space = old.space AND domains.domain = old.domain LIMIT 1) AS kept ON true
      WHERE old.space = $1 AND old.${revision} <= coalesce(history_floor, old.${revision})
      ORDER BY ${columnsOf('old', key)} LIMIT 500) AS page LIMIT $2),
    ${given(key, arraysOf('first', key))}
    DELETE FROM ${table} USING given WHERE ${isGiven(table, key)}`;

/** Statements of background work: they read across Spaces, by index and bounded, and change nothing. */
export const BACKGROUND_STATEMENTS = {
  ...PACK_BACKGROUND_STATEMENTS,
  ...APP_TOTAL_STATEMENTS,
  ...COMMIT_RECORD_STATEMENTS,
  ...NEAR_SPACE_STATEMENTS,
  /** For a purge, within one Space ($1). Cursors of earlier revisions find no history. */
  closeDomains: `UPDATE domains SET history_floor = revision + 1, revision = revision + 1, balance_count = NULL, count_sum = NULL,
      row_sum = ${sumOfDomain('domains.revision + 1', 'domains.revision + 1')} WHERE space = $1`,
  /** $2 hashes at most */
  takeBalances: `WITH taken AS MATERIALIZED (
      SELECT DISTINCT hash FROM (SELECT hash FROM balances WHERE space = $1 ORDER BY domain, hash LIMIT $2) AS page),
    ${IN_EACH_DOMAIN},
    gone AS (DELETE FROM balances USING given WHERE ${isGiven('balances', 'domain, hash')})
    SELECT hash FROM taken`,
  recountCommits: `UPDATE domains SET count_sum = NULL, commit_count = (SELECT count(*) FROM root_ref_commits
      WHERE root_ref_commits.space = domains.space AND root_ref_commits.domain = domains.domain)
    WHERE domains.space = $1`,
  notePurged: `UPDATE spaces SET purged = true, purged_sum = ${PURGED_SUM} WHERE space = $1`,
  takeBalancesOf: `WITH taken AS MATERIALIZED (SELECT hash FROM unnest($2::bytea[]) AS list (hash)), ${IN_EACH_DOMAIN}
    DELETE FROM balances USING given WHERE ${isGiven('balances', 'domain, hash')}`,
  /** $2 rows; of what was committed since `closeDomains`, nothing */
  deleteAnyHistory: deleteAny('balance_history', HISTORY_KEY, 'to_revision'),
  deleteAnyCommits: deleteAny('root_ref_commits', 'domain, request_id', 'revision'),

  /** $1 the Space after which to look, $2 how many */
  findSpacesInTurn:
    'SELECT space, app_id, space_id FROM spaces WHERE space > $1::uuid ORDER BY space LIMIT $2',
  /** $3 App */
  findSpacesOfAppInTurn: `SELECT space, app_id, space_id FROM spaces
    WHERE app_id = $3 COLLATE "C" AND space > $1::uuid ORDER BY space LIMIT $2`,
  findWaitingDue: dueSpaces('waiting_touched_at', 'nodes', 'state = 0'),
  findClaimedDue: dueSpaces('claim_held_until', 'nodes', 'state = 3'),
  findUploadsDue: dueSpaces('active_at', 'uploads'),
  findDiscardsDue: dueSpaces('due_at', 'discards'),
  findPacksDue: dueSpaces('sweep_at', 'packs'),
  /** $1 when its URL ends, $2 Space and $3 generation after which, $4 rows */
  findUnseenUploads: `SELECT page.*, ${spaceNamesOf('page')} FROM (
      (${unseenIn('uploads', 'active_at', 'hash, NULL::bytea AS id', 'verdict IS NULL AND canonical_size IS NULL')})
      UNION ALL
      (${unseenIn('packs', 'sweep_at', 'NULL::bytea AS hash, id', 'state = 0 AND bytes IS NULL')})
      ORDER BY ends_at, space, generation LIMIT $4) AS page ORDER BY ends_at, space, generation`,
  /** $1 the Space after which to look, $2 how many: Spaces with counted leases, and when the first is due */
  findLeasedSpaces: `WITH ${walkOf('nodes', 'lease_counted')}
    SELECT walk.space, first.lease_due_at FROM walk CROSS JOIN LATERAL (
      SELECT lease_due_at FROM nodes WHERE space = walk.space AND lease_counted ORDER BY lease_due_at LIMIT 1) AS first
    ORDER BY walk.space`,
  /** $1 the Space after which to look, $2 how many, $3 of each no more rows are counted */
  findRottenSpaces: `WITH ${walkOf('nodes', 'state = 2')}
    SELECT walk.space, ${spaceNamesOf('walk')}, counted.count FROM walk CROSS JOIN LATERAL (
      SELECT count(*) AS count FROM (SELECT FROM nodes WHERE space = walk.space AND state = 2 LIMIT $3) AS page) AS counted
    ORDER BY walk.space`,
  /** $1 Space, $2 rows */
  listRottenNodes: 'SELECT hash FROM nodes WHERE space = $1 AND state = 2 LIMIT $2',
  /** $1 the Space after which to look, $2 how many, $3 a clock or NULL */
  listSpaces: listedSpaces('spaces.space > $1::uuid'),
  listSpacesOfApp: listedSpaces('spaces.app_id = $4 COLLATE "C" AND spaces.space > $1::uuid'),
  /** If rows of nodes are damaged, leases cannot be counted, so all count as ended. */
  listDamagedSpaces: listedSpaces('spaces.space > $1::uuid', 'sums.leased_count'),
  listDamagedSpacesOfApp: listedSpaces(
    'spaces.app_id = $4 COLLATE "C" AND spaces.space > $1::uuid',
    'sums.leased_count',
  ),
  /** $1 superseded at or before, $2 rows */
  findOldHistory: `SELECT space, domain, hash, from_revision, to_revision, balance, superseded_at, row_sum FROM balance_history WHERE superseded_at <= $1
    ORDER BY superseded_at LIMIT $2`,
  /** $1 Space, $2 hash after which, $3 rows */
  findNodesToScrub: `SELECT page.*, ${spaceNamesOf('page')}, ${CONTENT_JOINED} FROM (
      SELECT space, ${NODE_COLUMNS} FROM nodes WHERE (space, hash) > ($1::uuid, $2::bytea) ORDER BY space, hash LIMIT $3) AS page
    LEFT JOIN LATERAL (
      SELECT * FROM contents WHERE contents.space = page.space AND contents.generation = page.generation LIMIT 1) AS contents ON true
    ORDER BY page.space, page.hash`,
  /** $1 Spaces, $2 generations */
  findKnownGenerations: `SELECT asked.generation FROM unnest($1::uuid[], $2::bytea[]) AS asked (space, generation)
    WHERE EXISTS (SELECT FROM contents WHERE contents.space = asked.space AND contents.generation = asked.generation OFFSET 0)
      OR EXISTS (SELECT FROM uploads WHERE uploads.space = asked.space AND uploads.generation = asked.generation OFFSET 0)
      OR EXISTS (SELECT FROM contents WHERE contents.space = asked.space AND contents.pack = asked.generation OFFSET 0)
      OR EXISTS (SELECT FROM packs WHERE packs.space = asked.space AND packs.generation = asked.generation AND NOT packs.discarded OFFSET 0)
      OR EXISTS (SELECT FROM discards WHERE discards.space = asked.space AND discards.generation = asked.generation OFFSET 0)`,
} as const;

/** Statements of transactions and of the store itself: they touch no table of a Space. */
export const CONTROL_STATEMENTS = {
  begin: 'BEGIN',
  commit: 'COMMIT',
  /** the instant of the transaction, $1 a test's clock or NULL */
  readNow: `SELECT ${nowOr('$1')} AS now WHERE ${OWN_SESSION}`,
} as const;

export const SQL = { ...SPACE_STATEMENTS, ...BACKGROUND_STATEMENTS, ...CONTROL_STATEMENTS } as const;
