/** The rows of root refs as SQLite has them, and whether they are as they were written. */
import type { Hash } from '@holdfast/protocol';
import {
  balanceSum,
  commitSum,
  domainSum,
  historySum,
  isSum,
  looseEdgesSum,
  mixValues,
} from '../../core/rows/row-sums.ts';
import { balanceFromSql, bytesToHex, commitFromSql, damagedRow, historyFromSql } from './rows.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

/** The second key of a commit. It holds the domain, so that a row whose domain is wrong is found too. */
export function requestKey(domain: number, requestId: string): number {
  return mixValues([domain, requestId]);
}

export const commitSumOf = (row: SqlRow): number => commitSum(row.domain as number, commitFromSql(row));

export function domainSumOf(row: SqlRow): number {
  const names = [row.id as number, row.space as number, row.domain as string];
  return domainSum(names, {
    revision: row.revision as number,
    historyFloor: row.history_floor as number,
    commitCount: row.commit_count as number,
    balanceCount: row.balance_count as number,
    walkedFrom: row.walked_from as number,
    walkedUntil: row.walked_until as number,
  });
}

export function balanceSumOf(row: SqlRow): number {
  const { hash, balance, fromRevision } = balanceFromSql(row);
  return balanceSum(row.domain as number, hash, balance, fromRevision);
}

export function historySumOf(row: SqlRow): number {
  const history = historyFromSql(row);
  return historySum(row.domain as number, history.hash, history);
}

export const isCommitSound = (row: SqlRow): boolean => isSum(row.row_sum, commitSumOf(row));
export const isDomainSound = (row: SqlRow): boolean => isSum(row.row_sum, domainSumOf(row));
export const isBalanceSound = (row: SqlRow): boolean => isSum(row.row_sum, balanceSumOf(row));
export const isHistorySound = (row: SqlRow): boolean => isSum(row.row_sum, historySumOf(row));

export const storeSum = (name: string, value: string): number => mixValues(['store', name, value]);

/** A value that was written by SQL has no sum until the next start. @throws StoreUnavailable, as damage */
export function storeValueOf({ name, value, row_sum: sum }: SqlRow): string {
  if (sum !== null && !isSum(sum, storeSum(name as string, value as string)))
    throw damagedRow('the value', String(name));
  return value as string;
}

/** The name under which the text of a note is kept. */
export const noteKey = (name: string): string => `note-${name}`;

export function findStoreValue(
  sql: Pick<ReadStatements, 'findStoreValue'>,
  name: string,
): string | undefined {
  const row = sql.findStoreValue.get(name);
  return row === null ? undefined : storeValueOf(row);
}

/** The revision of a domain without a row. */
export const firstRevisionOf = (row: SqlRow | null | undefined): number =>
  row ? Number(storeValueOf(row)) : 0;

/** Edges to a hash without a row. @throws StoreUnavailable, as damage */
export function looseEdgesFromSql(row: SqlRow): { readonly hash: Hash; readonly count: number } {
  const [hash, count] = [bytesToHex(row.hash as Uint8Array), row.count as number];
  if (isSum(row.row_sum, looseEdgesSum(row.space as number, hash, count))) return { hash, count };
  throw damagedRow('the edges to', hash);
}
