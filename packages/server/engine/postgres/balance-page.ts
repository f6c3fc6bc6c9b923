/** A page of root-ref balances as of one revision: the current table and the history, merged in hash order. */
import type { Hash } from '@holdfast/protocol';
import type { RootRefBalance, Space, SpaceKey } from '../../core/model.ts';
import { BALANCES_COUNTED_MAX } from '../../core/rows/row-sums.ts';
import { damagedDomain, RowDamaged } from './row-damage.ts';
import { balanceSum, domainCountSum, domainSum, historySum, withSuperseded } from './row-sums.ts';
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
  /** of a domain without a commit */
  readonly firstRevision?: number;
}

export interface BalancePage {
  readonly revision: number;
  readonly items: RootRefBalance[];
}

/** What one table says of a hash; `balance` null: the table has no balance at that revision. Every row is proven. */
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
  const { revision, firstRevision = 0 } = page;
  if (revision === 'current') return findLatest(pool, space, domain, page, share);
  const items: RootRefBalance[] = [];
  let after = page.after;
  // The balances of a revision never change, so the steps of a page need not see the same commit.
  for (;;) {
    const parameters: SqlValue[] = [space, domain, startOf(after), revision, rowsMax];
    const { rows } = await pool.read(DOING, SQL.findBalancesAt, parameters, share);
    const known = rows.find(({ kind }) => kind === -1);
    const at = { space, domain, revision, firstRevision };
    if (!isCovered(at, known)) {
      if (known === undefined) await assertNoRests(pool, space, domain, share);
      return undefined;
    }
    const step = mergeStep(passedNow(at, rows), passedThen(at, rows), rowsMax);
    for (const { hash, balance } of step.passed) {
      if (balance === null) continue;
      items.push({ hash, balance });
      if (items.length === page.limit) return { revision, items };
    }
    if (step.resumeAfter === undefined) {
      await assertAllThere(pool, space, domain, share);
      return { revision, items };
    }
    after = step.resumeAfter;
  }
}

async function findLatest(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  { after, limit, firstRevision = 0 }: BalancePageRequest,
  share: Space | undefined,
): Promise<BalancePage> {
  const parameters = [space, domain, startOf(after), limit];
  const { rows } = await pool.read(DOING, SQL.findLatestBalances, parameters, share);
  const [first] = rows;
  if (first?.has_rests === true) throw damagedDomain(domain);
  if (first === undefined || first.revision === null) return { revision: firstRevision, items: [] };
  const revision = first.revision as number;
  assertDomain(space, domain, [revision, first.history_floor as number], first.domain_sum);
  const found = rows.filter(({ hash }) => hash !== null);
  if (found.length < limit) await assertAllThere(pool, space, domain, share);
  return {
    revision,
    items: found.map((row) => {
      const [hash, balance] = [byteaToHex(row.hash), row.balance as number];
      const sum = balanceSum(space, { domain, hash, balance, since: row.from_revision as number });
      assertBalance(hash, domain, row.row_sum, sum);
      return { hash, balance };
    }),
  };
}

/** At the end of a walk: a balance whose row says another domain or Space is met by none of its pages. */
async function assertAllThere(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  share: Space | undefined,
): Promise<void> {
  const parameters = [space, domain, BALANCES_COUNTED_MAX];
  const [row] = (await pool.read(DOING, SQL.countBalances, parameters, share)).rows;
  if (row === undefined) return;
  const [commits, balances] = [row.commit_count as number, row.balance_count as number | null];
  if (row.count_sum !== null && row.count_sum !== domainCountSum(space, domain, commits, balances))
    throw damagedDomain(domain);
  if (row.found !== null && row.found !== balances)
    throw new RowDamaged('balances', `a node in the domain ${JSON.stringify(domain)}`);
}

/** A domain with commits or balances has a row: without it nobody knows its revision. */
async function assertNoRests(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  share: Space | undefined,
): Promise<void> {
  const { rows } = await pool.read(DOING, SQL.findRestsOfDomain, [space, domain], share);
  if (rows[0]?.has === true) throw damagedDomain(domain);
}

function assertDomain(
  space: SpaceKey,
  domain: string,
  [revision, floor]: readonly [number, number],
  sum: unknown,
): void {
  if (sum !== null && sum !== domainSum(space, domain, revision, floor)) throw damagedDomain(domain);
}

function assertBalance(hash: Hash, domain: string, kept: unknown, sum: number): void {
  if (kept !== null && kept !== sum) {
    throw new RowDamaged('balances', `node ${hash} in the domain ${JSON.stringify(domain)}`);
  }
}

interface At {
  readonly space: SpaceKey;
  readonly domain: string;
  readonly revision: number;
  readonly firstRevision: number;
}

/** A domain without a row is at its first revision. */
function isCovered({ space, domain, revision, firstRevision }: At, known: SqlRow | undefined): boolean {
  if (known === undefined) return revision === firstRevision;
  const [latest, floor] = [known.balance as number, known.since as number];
  assertDomain(space, domain, [latest, floor], known.row_sum);
  return revision <= latest && revision >= floor;
}

function passedNow({ space, domain, revision }: At, rows: readonly SqlRow[]): Passed[] {
  return rows
    .filter(({ kind }) => kind === 0)
    .map((row) => {
      const [hash, balance, since] = [byteaToHex(row.hash), row.balance as number, row.since as number];
      assertBalance(hash, domain, row.row_sum, balanceSum(space, { domain, hash, balance, since }));
      return { hash, balance: since <= revision ? balance : null };
    });
}

function passedThen({ space, domain, revision }: At, rows: readonly SqlRow[]): Passed[] {
  return rows
    .filter(({ kind }) => kind === 1)
    .map((row) => {
      const hash = byteaToHex(row.hash);
      if (row.since === null) return { hash, balance: null };
      const [balance, since, until] = [row.balance as number, row.since as number, row.until as number];
      const sum = historySum(space, { domain, hash, balance, since, until });
      assertBalance(hash, domain, row.row_sum, withSuperseded(sum, row.superseded_at as number));
      return { hash, balance: until > revision ? balance : null };
    });
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
