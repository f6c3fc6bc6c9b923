/** SQL about root refs: domains, commits, balances and their history. `$1` is the Space. */
import { NEVER_WALKED } from '../../core/root-ref-walks.ts';
import { sumOfCounts, sumOfDomain, sumWithSuperseded } from './row-sums.ts';
import { given, guarded, isGiven, nowOr, seek } from './sql-fragments.ts';

/** OFFSET 0: one seek for each domain, and never a list of all domains that the Space has. */
const hasRests = (domain: string): string =>
  `(EXISTS (SELECT FROM root_ref_commits WHERE space = $1 AND root_ref_commits.domain = ${domain} COLLATE "C" OFFSET 0)
      OR EXISTS (SELECT FROM balances WHERE space = $1 AND balances.domain = ${domain} COLLATE "C" OFFSET 0))`;

/** 0. Fails if the new row is of a domain that had one that this transaction cannot see: that row is damaged. */
const MISSED_DOMAIN = `width_bucket(0, 0, 1, CASE WHEN ${hasRests('given.domain')} AND NOT EXISTS (SELECT FROM domains AS known
      WHERE known.space = $1 AND known.domain = given.domain COLLATE "C" OFFSET 0) THEN 0 ELSE 1 END) - 1`;

const COMMIT_COLUMNS = 'space, domain, request_id, payload_digest, revision, row_sum, request_sum';

export const ROOT_REF_STATEMENTS = {
  /** Root refs of one transaction, or of several commits that share one: every array has an element per row. */
  lockDomains: seek(
    'domain',
    '$2::text[]',
    `SELECT domain, revision, history_floor, walked_from, walked_until, row_sum FROM domains
     WHERE space = $1 AND domain = given.domain FOR UPDATE`,
  ),
  /** $4 sums, $5 the revision before their first one, $6 how many balances, $7 sums of the numbers of commits and balances */
  insertDomains: `INSERT INTO domains (space, domain, revision, history_floor, walked_from, walked_until, commit_count, row_sum, balance_count, count_sum)
    SELECT $1::uuid, domain, revision, $5::bigint, revision, ${NEVER_WALKED}, revision - $5::bigint, sum + ${MISSED_DOMAIN}, balances, count_sum
    FROM unnest($2::text[], $3::bigint[], $4::bigint[], $6::bigint[], $7::bigint[])
      AS given (domain, revision, sum, balances, count_sum)
    ORDER BY domain`,
  /** $3 from which revision, $4 to which, $5 how many, $6 by how many balances more, $7 and $8 walked from where until when */
  advanceRevisions: guarded(
    `WITH ${given('domain, since, until, more, walked_from, walked_until', '$2::text[], $3::bigint[], $4::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]')}
     UPDATE domains SET revision = given.until, commit_count = domains.commit_count + given.until - given.since,
       balance_count = domains.balance_count + given.more, walked_from = given.walked_from,
       walked_until = given.walked_until,
       row_sum = ${sumOfDomain('given.until', undefined, ['given.walked_from', 'given.walked_until'])},
       count_sum = ${sumOfCounts('given.until - given.since', 'given.more')} FROM given
     WHERE ${isGiven('domains', 'domain')} AND domains.revision = given.since`,
    '$5::bigint',
  ),
  /** $2 domain, $3 until when */
  noteWalk: `UPDATE domains SET walked_until = $3::bigint, row_sum = ${sumOfDomain('domains.revision', undefined, ['domains.walked_from', '$3::bigint'])}
    WHERE space = $1 AND domain = $2`,
  /** $2 domains, $3 request ids, $4 their sums: finds a commit with a damaged name, perhaps another Space's with the same sum. */
  findCommits: seek(
    'domain, request_id, request_sum',
    '$2::text[], $3::bytea[], $4::bigint[]',
    `SELECT ${COMMIT_COLUMNS} FROM root_ref_commits WHERE space = $1 AND domain = given.domain AND request_id = given.request_id
     UNION ALL SELECT ${COMMIT_COLUMNS} FROM root_ref_commits WHERE request_sum = given.request_sum OFFSET 0`,
  ),
  /** $6 sums, $7 those of their names */
  insertCommits: `INSERT INTO root_ref_commits (space, domain, request_id, payload_digest, revision, row_sum, request_sum)
    SELECT $1::uuid, given.* FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[]) AS given`,
  /** $2 domains, $3 hashes */
  findBalances: seek(
    'domain, hash',
    '$2::text[], $3::bytea[]',
    `SELECT domain, hash, balance, from_revision, row_sum FROM balances
     WHERE space = $1 AND domain = given.domain AND hash = given.hash OFFSET 0`,
  ),
  /** $4 since which revision, $5 until which, $6 balances, $7 their sums but for the instant, $8 when, or NULL for now */
  insertHistory: `INSERT INTO balance_history
      (space, domain, hash, from_revision, to_revision, balance, superseded_at, row_sum)
    SELECT $1::uuid, domain, hash, since, until, balance, ${nowOr('$8')}, ${sumWithSuperseded('sum', nowOr('$8'))}
    FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
      AS given (domain, hash, since, until, balance, sum)`,
  /** $4 balances, $5 since which revision, $6 sums */
  setBalances: `INSERT INTO balances (space, domain, hash, balance, from_revision, row_sum)
    SELECT $1::uuid, given.* FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[]) AS given
    ON CONFLICT (space, domain, hash) DO UPDATE SET balance = excluded.balance, from_revision = excluded.from_revision,
      row_sum = excluded.row_sum`,
  /** $4 how many */
  deleteBalances: guarded(
    `WITH ${given('domain, hash', '$2::text[], $3::bytea[]')}
     DELETE FROM balances USING given WHERE ${isGiven('balances', 'domain, hash')}`,
    '$4::bigint',
  ),
  /** How many balances the domain must have, and how many it has, unless it is more than $3. */
  countBalances: `SELECT commit_count, balance_count, count_sum, CASE WHEN balance_count <= $3
      THEN (SELECT count(*) FROM balances WHERE space = $1 AND domain = $2) END AS found
    FROM domains WHERE space = $1 AND domain = $2`,
  /** Whether there is what only a domain with a row has. */
  findRestsOfDomain: `SELECT ${hasRests('$2')} AS has`,
  /** $3 after, $4 limit: the page of the latest revision. One row without a hash when it is empty; `has_rests`: its domain is damaged. */
  findLatestBalances: `SELECT domains.revision, domains.history_floor, domains.walked_from, domains.walked_until, domains.row_sum AS domain_sum, page.*,
      CASE WHEN domains.domain IS NULL THEN ${hasRests('$2')} ELSE false END AS has_rests
    FROM (VALUES (1)) AS one LEFT JOIN domains ON domains.space = $1 AND domains.domain = $2 LEFT JOIN LATERAL (
      SELECT hash, balance, from_revision, row_sum FROM balances WHERE space = $1 AND domain = $2 AND hash > $3 ORDER BY hash LIMIT $4) AS page ON true`,
  /**
   * $3 after, $4 revision, $5 rows of each kind at most: the current balances and their first revision (kind 0), and for each hash with a
   * history the last balance that began at the revision or before (kind 1), with one seek per hash however long its history is. `since`
   * NULL: none.
   */
  findBalancesAt: `WITH RECURSIVE known AS MATERIALIZED (
      SELECT revision, history_floor, walked_from, walked_until, row_sum FROM domains WHERE space = $1 AND domain = $2),
    walk (hash, step) AS (
      (SELECT hash, 1 FROM balance_history WHERE space = $1 AND domain = $2 AND hash > $3 ORDER BY hash LIMIT 1)
      UNION ALL
      SELECT next.hash, step + 1 FROM walk CROSS JOIN LATERAL (
        SELECT hash FROM balance_history WHERE space = $1 AND domain = $2 AND hash > walk.hash ORDER BY hash LIMIT 1) AS next
      WHERE step < $5)
    SELECT -1 AS kind, NULL::bytea AS hash, revision AS balance, history_floor AS since, walked_from AS until, walked_until AS superseded_at,
      row_sum FROM known
    UNION ALL
    (SELECT 0, hash, balance, from_revision, NULL, NULL, row_sum FROM balances
      WHERE space = $1 AND domain = $2 AND hash > $3 ORDER BY hash LIMIT $5)
    UNION ALL
    SELECT 1, walk.hash, past.balance, past.from_revision, past.to_revision, past.superseded_at, past.row_sum FROM walk LEFT JOIN LATERAL (
      SELECT balance, from_revision, to_revision, superseded_at, row_sum FROM balance_history
      WHERE space = $1 AND domain = $2 AND hash = walk.hash AND from_revision <= $4
      ORDER BY from_revision DESC LIMIT 1) AS past ON true`,
} as const;
