/** A page of root-ref balances as of one revision: the current table and the history, merged in hash order. */
import type { Hash } from '@holdfast/protocol';
import type { RootRefBalance, Space, SpaceKey } from '../../core/model.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/sql-values.ts';

/** rows of each table that one statement reads; it has to skip rows of later revisions */
const STEP_ROWS_MAX = 1_000;
const BEFORE_ALL = '\\x';
const DOING = 'reading root refs';

export interface BalancePageRequest {
  readonly revision: number | 'current';
  readonly after: Hash | undefined;
  readonly limit: number;
}

export interface BalancePage {
  readonly revision: number;
  readonly items: RootRefBalance[];
}

/** What one table says of a hash; `balance` null: the table has no balance at that revision. */
interface Passed {
  readonly hash: Hash;
  readonly balance: number | null;
}

/** `undefined`: the history of that revision is gone, or the domain has no such revision yet. */
export async function findBalancePage(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  page: BalancePageRequest,
  rowsMax: number = STEP_ROWS_MAX,
  /** whose share of the connections is used */
  share?: Space,
): Promise<BalancePage | undefined> {
  const { revision } = page;
  if (revision === 'current') return findLatest(pool, space, domain, page, share);
  const items: RootRefBalance[] = [];
  let after = page.after;
  // The balances of a revision never change, so the steps of a page need not see the same commit.
  for (;;) {
    const parameters: SqlValue[] = [space, domain, startOf(after), revision, rowsMax];
    const { rows } = await pool.read(DOING, SQL.findBalancesAt, parameters, share);
    const known = rows.find(({ kind }) => kind === -1);
    if (!isCovered(known, revision)) return undefined;
    const step = mergeStep(passedOf(rows, 0), passedOf(rows, 1), rowsMax);
    for (const { hash, balance } of step.passed) {
      if (balance === null) continue;
      items.push({ hash, balance });
      if (items.length === page.limit) return { revision, items };
    }
    if (step.resumeAfter === undefined) return { revision, items };
    after = step.resumeAfter;
  }
}

async function findLatest(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  { after, limit }: BalancePageRequest,
  share: Space | undefined,
): Promise<BalancePage> {
  const parameters = [space, domain, startOf(after), limit];
  const { rows } = await pool.read(DOING, SQL.findLatestBalances, parameters, share);
  const found = rows.filter(({ hash }) => hash !== null);
  return {
    revision: (rows[0]?.revision as number | undefined) ?? 0,
    items: found.map(({ hash, balance }) => ({ hash: byteaToHex(hash), balance: balance as number })),
  };
}

/** A domain without a row is at revision 0. */
function isCovered(known: SqlRow | undefined, revision: number): boolean {
  if (known === undefined) return revision === 0;
  return revision <= (known.balance as number) && revision >= (known.floor as number);
}

function passedOf(rows: readonly SqlRow[], kind: number): Passed[] {
  return rows
    .filter((row) => row.kind === kind)
    .map(({ hash, balance }) => ({ hash: byteaToHex(hash), balance: balance as number | null }));
}

/**
 * Pure. Merges both in hash order, up to the hash at which one of them was cut off at `rowsMax`. A hash has a balance in at most
 * one of the two: it was superseded after the revision, or it was not.
 */
export function mergeStep(
  current: readonly Passed[],
  history: readonly Passed[],
  rowsMax: number,
): { readonly passed: readonly Passed[]; readonly resumeAfter: Hash | undefined } {
  const ends = [current, history]
    .filter((rows) => rows.length >= rowsMax)
    .map((rows) => (rows.at(-1) as Passed).hash);
  const resumeAfter = ends.sort()[0];
  const passed = [...current, ...history].filter(
    ({ hash }) => resumeAfter === undefined || hash <= resumeAfter,
  );
  passed.sort((left, right) => (left.hash < right.hash ? -1 : Number(left.hash > right.hash)));
  return { passed, resumeAfter };
}

const startOf = (after: Hash | undefined): string => (after === undefined ? BEFORE_ALL : hexToBytea(after));
