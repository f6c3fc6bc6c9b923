/** SQL for copying a whole deployment (engine/transfer-ports.ts); servers do not run it. `$1` is the Space, if there is one. */
import { isHeld } from './background-turns.ts';
import { CONTENT_JOINED, withContent } from './packs/pack-statements.ts';
import { sumOfCounts } from './row-sums.ts';
import { columnsOf } from './sql-fragments.ts';
import { NODE_COLUMNS, SPACE_STATEMENTS, UPLOAD_COLUMNS } from './statements.ts';
import { FIND_UNREACHED } from './sums/unreached.ts';

/** The name of a copy's own sessions, which tells them from those of servers. */
const SESSION_NAME = 'holdfast-migrate';
/** The lock of the session that copies. The digits are the ASCII of `holdfast`. */
const LOCK = '7525352680829580148';

const { insertSpace, insertNodes, insertContents, insertUploads, setLooseEdges, addCounters } =
  SPACE_STATEMENTS;

export const DEPLOYMENT_SQL = {
  nameSession: `SET application_name = '${SESSION_NAME}'`,
  tryLock: `SELECT pg_try_advisory_lock(${LOCK}) AS locked`,
  unlock: `SELECT pg_advisory_unlock(${LOCK}) AS unlocked`,
  /** $1 what the address calls sessions: sessions of servers, and turns at background work that a server holds or held until a moment ago */
  findServers: `SELECT
      (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name IN ('holdfast', $1)) AS sessions,
      (SELECT count(*) FROM background_turns WHERE ${isHeld('held_until')}) AS turns`,

  /** $1 name */
  findMark: 'SELECT value FROM copy_marks WHERE name = $1',
  setMark:
    'INSERT INTO copy_marks (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
  removeMark: 'DELETE FROM copy_marks WHERE name = $1',
  /** For a start: finds an unfinished copy and removes other marks. No wrong bit in a name changes its length, by which they differ. */
  beginServing: `WITH gone AS (DELETE FROM copy_marks WHERE octet_length(name) <> octet_length('unfinished'))
    SELECT count(*) AS unfinished FROM copy_marks WHERE octet_length(name) = octet_length('unfinished')`,

  readTotals: `SELECT (SELECT count(*) FROM spaces) AS spaces, coalesce(sum(node_count), 0)::bigint AS nodes,
    coalesce(sum(ready_stored_bytes + waiting_bytes), 0)::bigint AS bytes FROM usage_counters`,
  findUnreached: FIND_UNREACHED,
  /** $1 after which, $2 limit */
  listSpaces:
    'SELECT space, app_id, space_id FROM spaces WHERE space > $1::uuid ORDER BY space LIMIT $2::bigint',

  nodes: `SELECT ${columnsOf('nodes', NODE_COLUMNS)}, ${CONTENT_JOINED} FROM nodes ${withContent()}
    WHERE nodes.space = $1 AND nodes.hash >= $2 ORDER BY nodes.hash LIMIT $3::bigint`,
  looseEdges:
    'SELECT hash, count, row_sum FROM loose_edges WHERE space = $1 AND hash >= $2 ORDER BY hash LIMIT $3::bigint',
  uploads: `SELECT ${UPLOAD_COLUMNS} FROM uploads WHERE space = $1 AND hash >= $2 ORDER BY hash LIMIT $3::bigint`,
  domains: `SELECT domain, revision, history_floor, walked_from, walked_until, row_sum FROM domains WHERE space = $1 AND domain >= $2
    ORDER BY domain LIMIT $3::bigint`,
  /** $2 domain in all below */
  balances: `SELECT hash, balance, from_revision, row_sum FROM balances WHERE space = $1 AND domain = $2 AND hash >= $3
    ORDER BY hash LIMIT $4::bigint`,
  history: `SELECT hash, from_revision, to_revision, balance, superseded_at, row_sum FROM balance_history
    WHERE space = $1 AND domain = $2 AND (hash, from_revision) > ($3::bytea, $4::bigint)
    ORDER BY hash, from_revision LIMIT $5::bigint`,
  commits: `SELECT request_id, payload_digest, revision, row_sum FROM root_ref_commits
    WHERE space = $1 AND domain = $2 AND request_id >= $3 ORDER BY request_id LIMIT $4::bigint`,

  ...{ insertSpace, insertNodes, insertContents, insertUploads, setLooseEdges, addCounters },
  insertDomains: `INSERT INTO domains (space, domain, revision, history_floor, row_sum, count_sum)
    SELECT $1::uuid, given.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS given`,
  insertBalances: `INSERT INTO balances (space, domain, hash, balance, from_revision, row_sum)
    SELECT $1::uuid, $2::text, given.* FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[]) AS given`,
  insertHistory: `INSERT INTO balance_history (space, domain, hash, from_revision, to_revision, balance, superseded_at, row_sum)
    SELECT $1::uuid, $2::text, given.* FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS given`,
  countCommits: `UPDATE domains SET commit_count = commit_count + $3::bigint, count_sum = ${sumOfCounts('$3::bigint', '0')}
    WHERE space = $1 AND domain = $2::text COLLATE "C"`,
  insertCommits: `INSERT INTO root_ref_commits (space, domain, request_id, payload_digest, revision, row_sum, request_sum)
    SELECT $1::uuid, $2::text, given.* FROM unnest($3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[]) AS given`,
} as const;

export type DeploymentStatement = keyof typeof DEPLOYMENT_SQL;
