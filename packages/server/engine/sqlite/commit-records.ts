/** The rows of the walk that forgets old commits. */
import type { CommitMark } from '../../core/commit-records.ts';
import { commitMarkSum, isSum } from '../../core/rows/row-sums.ts';
import type { CommitRecordRows, DomainOfCommits } from '../rows/commit-records.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { isCommitSound, isDomainSound } from './ledger-rows.ts';
import type { SqlRow } from './statements.ts';
import type { WriteScope } from './write-scope.ts';

type Submit = <T>(body: (scope: WriteScope) => T) => Promise<Awaited<T>>;

/** By the id of the domain. */
export function commitRecordRows(submit: Submit): CommitRecordRows<number> {
  return {
    readDomains: (after = 0, dueAt) =>
      submit((scope) => {
        const rows = scope.findAll(scope.sql.findDomainsAfter, after, ROWS_PER_STATEMENT);
        const last = rows.at(-1)?.id as number | undefined;
        // A number with a wrong high bit is not exact: the row would be met again for ever.
        const isEnd = rows.length < ROWS_PER_STATEMENT || last === undefined || last <= after;
        const domains = rows.filter(isDomainSound).map((row) => markedDomain(scope, row, dueAt));
        return { domains, next: isEnd ? undefined : last };
      }),
    noteMarks: (marks) =>
      submit((scope) => {
        for (const { key, mark } of marks) {
          const values = [key, mark.markedAt, mark.revision, commitMarkSum(key, mark)] as const;
          scope.write(scope.sql.insertCommitMark, ...values);
        }
      }),
    readRequests: (key, after, upTo) =>
      submit((scope) => {
        const rows = scope.findAll(scope.sql.findCommitsAfter, key, after ?? '', ROWS_PER_STATEMENT);
        const old = rows.filter((row) => (row.revision as number) <= upTo && isCommitSound(row));
        const last = rows.at(-1)?.request_id as string | undefined;
        const next = rows.length < ROWS_PER_STATEMENT ? undefined : last;
        return { requestIds: old.map((row) => row.request_id as string), next };
      }),
    forget: (key, requestIds, upTo) =>
      submit((scope) => {
        let forgotten = 0;
        for (const id of requestIds) forgotten += scope.write(scope.sql.deleteCommit, key, id, upTo);
        if (forgotten > 0) scope.writeOne('a domain stays', scope.sql.forgetCommits, key, forgotten, upTo);
        return forgotten;
      }),
    deleteMarks: (key, markedAt) =>
      submit((scope) => void scope.write(scope.sql.deleteCommitMarks, key, markedAt)),
  };
}

function markedDomain(scope: WriteScope, row: SqlRow, dueAt: number): DomainOfCommits<number> {
  const key = row.id as number;
  return {
    key,
    revision: row.revision as number,
    commitCount: row.commit_count as number,
    newest: findMark(scope, key, Number.MAX_SAFE_INTEGER),
    due: findMark(scope, key, dueAt),
  };
}

function findMark(scope: WriteScope, domain: number, markedBy: number): CommitMark | undefined {
  const row = scope.find(scope.sql.findCommitMark, domain, markedBy);
  if (row === undefined) return undefined;
  const mark = { markedAt: row.marked_at as number, revision: row.revision as number };
  return isSum(row.row_sum, commitMarkSum(domain, mark)) ? mark : undefined;
}
