/** SQL of the walk that forgets old commits. */
import { sumOfCounts, sumOfDomain } from './row-sums.ts';
import { columnsOf, given, isGiven } from './sql-fragments.ts';

const DOMAIN_COLUMNS =
  'space, domain, revision, history_floor, walked_from, walked_until, row_sum, commit_count, balance_count, count_sum';

const markOf = (name: string, condition = 'true'): string => `LEFT JOIN LATERAL (
      SELECT marked_at AS ${name}_at, revision AS ${name}_revision, row_sum AS ${name}_sum FROM commit_marks AS mark
      WHERE mark.space = page.space AND mark.domain = page.domain AND ${condition} ORDER BY marked_at DESC LIMIT 1) AS ${name} ON true`;

export const COMMIT_RECORD_STATEMENTS = {
  /** $1 Space and $2 domain after which, $3 how many, $4 when a mark is old enough */
  findMarkedDomains: `SELECT page.*, newest.*, due.* FROM (SELECT ${columnsOf('domains', DOMAIN_COLUMNS)} FROM domains
      WHERE (space, domain) > ($1::uuid, $2::text COLLATE "C") ORDER BY space, domain LIMIT $3) AS page
    ${markOf('newest')} ${markOf('due', 'mark.marked_at <= $4')}
    ORDER BY page.space, page.domain`,
  /** $1 Spaces, $2 domains, $3 when, $4 revisions, $5 sums */
  insertCommitMarks: `INSERT INTO commit_marks (space, domain, marked_at, revision, row_sum)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) ON CONFLICT DO NOTHING`,
  /** $2 domain, $3 request after which, $4 how many */
  findOldCommits: `SELECT request_id, payload_digest, revision, row_sum FROM root_ref_commits
    WHERE space = $1 AND domain = $2 AND request_id > $3 ORDER BY request_id LIMIT $4`,
  /** $2 the domain for each request of $3, $4 the last revision that may go */
  forgetCommits: `WITH ${given('domain, request_id', '$2::text[], $3::bytea[]')},
    gone AS (DELETE FROM root_ref_commits USING given
      WHERE ${isGiven('root_ref_commits', 'domain, request_id')} AND revision <= $4::bigint RETURNING 1),
    counted AS (SELECT count(*) AS commits FROM gone)
    UPDATE domains SET commit_count = commit_count - counted.commits, history_floor = greatest(history_floor, $4::bigint),
      row_sum = ${sumOfDomain('domains.revision', 'greatest(domains.history_floor, $4::bigint)')},
      count_sum = ${sumOfCounts('- counted.commits', '0')}
    FROM counted WHERE space = $1 AND domain = ($2::text[])[1] AND counted.commits > 0
    RETURNING counted.commits`,
  /** $2 domain, $3 when */
  deleteCommitMarks: 'DELETE FROM commit_marks WHERE space = $1 AND domain = $2 AND marked_at <= $3',
} as const;
