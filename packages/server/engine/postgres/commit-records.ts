/** The rows of the walk that forgets old commits. */
import type { CommitMark } from '../../core/commit-records.ts';
import type { SpaceKey } from '../../core/model.ts';
import type { CommitRecordRows, DomainOfCommits } from '../rows/commit-records.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { commitMarkSum, commitSum, domainCountSum, domainStateFromSql, domainSum } from './row-sums.ts';
import { unprovenCommit } from './rows.ts';
import { spaceKeyFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { type SqlRow, textToBytea } from './wire/wire-messages.ts';

interface DomainKey {
  readonly space: SpaceKey;
  readonly domain: string;
}

const FIRST = ['00000000-0000-0000-0000-000000000000', ''] as const;
const MARKING = 'noting the age of commits';
const FORGETTING = 'deleting old commits';

export function commitRecordRows(pool: PostgresPool): CommitRecordRows<DomainKey> {
  return {
    async readDomains(after, dueAt) {
      const from = after === undefined ? FIRST : [after.space, after.domain];
      const parameters = [...from, ROWS_PER_STATEMENT, dueAt];
      const { rows } = await pool.read(MARKING, SQL.findMarkedDomains, parameters);
      const next = rows.length < ROWS_PER_STATEMENT ? undefined : keyOf(rows.at(-1) as SqlRow);
      return { domains: rows.flatMap(provenDomain), next };
    },
    async noteMarks(marks) {
      const columns = [
        marks.map(({ key }) => key.space),
        marks.map(({ key }) => key.domain),
        marks.map(({ mark }) => mark.markedAt),
        marks.map(({ mark }) => mark.revision),
        marks.map(({ key, mark }) => commitMarkSum(key.space, key.domain, mark)),
      ];
      await pool.run(MARKING, SQL.insertCommitMarks, columns);
    },
    async readRequests({ space, domain }, after, upTo) {
      const parameters = [space, domain, textToBytea(after ?? ''), ROWS_PER_STATEMENT];
      const { rows } = await pool.read(FORGETTING, SQL.findOldCommits, parameters);
      const commits = rows.map((row) => ({ commit: unprovenCommit(row), sum: row.row_sum }));
      const old = commits.filter(
        ({ commit, sum }) => commit.revision <= upTo && sum === commitSum(space, domain, commit),
      );
      const next = rows.length < ROWS_PER_STATEMENT ? undefined : commits.at(-1)?.commit.requestId;
      return { requestIds: old.map(({ commit }) => commit.requestId), next };
    },
    async forget({ space, domain }, requestIds, upTo) {
      const domains = requestIds.map(() => domain);
      const parameters = [space, domains, requestIds.map(textToBytea), upTo];
      const { rows } = await pool.run(FORGETTING, SQL.forgetCommits, parameters);
      return (rows[0]?.commits as number | undefined) ?? 0;
    },
    async deleteMarks({ space, domain }, markedAt) {
      await pool.run(FORGETTING, SQL.deleteCommitMarks, [space, domain, markedAt]);
    },
  };
}

const keyOf = (row: SqlRow): DomainKey => ({
  space: spaceKeyFromSql(row.space),
  domain: row.domain as string,
});

/** Nothing is deleted on the word of a damaged row. */
function provenDomain(row: SqlRow): DomainOfCommits<DomainKey>[] {
  const key = keyOf(row);
  const { space, domain } = key;
  const [revision, commitCount] = [row.revision as number, row.commit_count as number];
  const isWhole = row.row_sum === domainSum(space, domain, revision, domainStateFromSql(row));
  const counts = domainCountSum(space, domain, commitCount, row.balance_count as number | null);
  if (!isWhole || (row.count_sum !== null && row.count_sum !== counts)) return [];
  const markOf = (name: 'newest' | 'due'): CommitMark | undefined => {
    if (row[`${name}_at`] === null) return undefined;
    const mark = { markedAt: row[`${name}_at`] as number, revision: row[`${name}_revision`] as number };
    return row[`${name}_sum`] === commitMarkSum(space, domain, mark) ? mark : undefined;
  };
  return [{ key, revision, commitCount, newest: markOf('newest'), due: markOf('due') }];
}
