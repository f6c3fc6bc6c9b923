/** A page of root-ref balances as of one revision: the current table and the history, merged in hash order. */
import type { Hash } from '@holdfast/protocol';
import type { RootRefBalance } from '../../core/model.ts';
import { BALANCES_COUNTED_MAX } from '../../core/rows/row-sums.ts';
import { firstRevisionOf, isBalanceSound, isDomainSound, isHistorySound } from './ledger-rows.ts';
import { bytesToHex, damagedRow, hexToBytes } from './rows.ts';
import type { SpaceDirectory } from './space-directory.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

/** rows and seeks of one step, which has to skip rows of later revisions */
const STEP_ROWS_MAX = 2_000;
const FETCH_ROWS = 256;
/** Before values of other types too: a hash whose type is wrong must be met. */
const BEFORE_ALL = Number.NEGATIVE_INFINITY;
/** a hash, or before all of them */
type After = Uint8Array | typeof BEFORE_ALL;

export interface BalancePageRequest {
  readonly revision: number | 'current';
  readonly after: Hash | undefined;
  readonly limit: number;
}

export interface BalancePageStep {
  readonly revision: number;
  readonly items: RootRefBalance[];
  /** where the next step goes on; undefined: the page is full or the domain at its end */
  readonly resumeAfter: Hash | undefined;
}

export interface BalanceReads {
  readonly sql: ReadStatements;
  readonly spaces: Pick<SpaceDirectory, 'assertNoneLost'>;
}

/**
 * One bounded step; call inside one read transaction. The balances of a revision never change, so the steps of a page need not
 * see the same commit. `undefined`: the history of that revision is gone.
 */
export function findBalanceStep(
  { sql, spaces }: BalanceReads,
  spaceId: number,
  domain: string,
  page: BalancePageRequest,
  rowsMax: number = STEP_ROWS_MAX,
): BalancePageStep | undefined {
  const row = sql.findDomain.get(spaceId, domain);
  const latest = row === null ? firstRevisionOf(sql.readFirstRevision.get()) : (row.revision as number);
  const revision = page.revision === 'current' ? latest : page.revision;
  if (row === null) {
    spaces.assertNoneLost(spaceId, domain);
    return { revision, items: [], resumeAfter: undefined };
  }
  if (!isDomainSound(row)) throw damagedRow('the domain', JSON.stringify(domain));
  if (revision > latest || revision < (row.history_floor as number)) return undefined;
  const id = row.id as number;
  const after: After = page.after === undefined ? BEFORE_ALL : hexToBytes(page.after);
  if (revision === latest) {
    const items = findCurrent(sql, id, after, page.limit);
    if (items.length < page.limit) assertAllThere(sql, row);
    return { revision, items, resumeAfter: undefined };
  }
  const walks = [walkCurrent(sql, id, revision, after), walkHistory(sql, id, revision, after)] as const;
  const step = merge(walks, page.limit, rowsMax);
  if (step.resumeAfter === undefined && step.items.length < page.limit) assertAllThere(sql, row);
  return { revision, ...step };
}

/** At the end of a walk: a balance whose row says another domain is met by none of its pages. @throws StoreUnavailable, as damage */
function assertAllThere(sql: ReadStatements, { id, domain, balance_count }: SqlRow): void {
  if ((balance_count as number) > BALANCES_COUNTED_MAX) return;
  if (sql.countBalances.get(id as number)?.count === balance_count) return;
  throw damagedRow('a balance of', JSON.stringify(domain));
}

function findCurrent(sql: ReadStatements, id: number, after: After, limit: number): RootRefBalance[] {
  return findBalances(sql, id, after, limit).map((row) => ({
    hash: bytesToHex(row.hash as Uint8Array),
    balance: row.balance as number,
  }));
}

function findBalances(sql: ReadStatements, id: number, after: After, limit: number): SqlRow[] {
  const rows = sql.findBalances.all(id, after, limit);
  for (const row of rows) {
    if (!isBalanceSound(row)) throw damagedRow('the balance of', bytesToHex(row.hash as Uint8Array));
  }
  return rows;
}

/** `balance` undefined: the row has no balance at the revision. */
interface Passed {
  readonly hash: Hash;
  readonly balance: number | undefined;
}

/** Walks the current balances. Those that already held at `revision` count. */
function* walkCurrent(
  sql: ReadStatements,
  id: number,
  revision: number,
  start: After,
): Generator<Passed, undefined> {
  let after: After = start;
  for (;;) {
    const rows = findBalances(sql, id, after, FETCH_ROWS);
    for (const row of rows) {
      const stood = (row.from_revision as number) <= revision;
      yield {
        hash: bytesToHex(row.hash as Uint8Array),
        balance: stood ? (row.balance as number) : undefined,
      };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < FETCH_ROWS) return;
    after = last.hash as Uint8Array;
  }
}

/** Walks the superseded balances. Those that held at `revision` count. A hash with a long history costs two seeks. */
function* walkHistory(
  sql: ReadStatements,
  id: number,
  revision: number,
  start: After,
): Generator<Passed, undefined> {
  let after: After = start;
  for (;;) {
    const next = sql.findHistoryHash.get(id, after);
    if (next === null) return;
    after = next.hash as Uint8Array;
    const row = sql.findHistoryAt.get(id, after, revision);
    if (row !== null && !isHistorySound(row)) throw damagedRow('the history of', bytesToHex(after));
    const stood = row !== null && (row.to_revision as number) > revision;
    yield { hash: bytesToHex(after), balance: stood ? (row.balance as number) : undefined };
  }
}

/** A hash has a balance in at most one of the two: it was superseded after `revision`, or it was not. */
function merge(
  [current, history]: readonly [Generator<Passed, undefined>, Generator<Passed, undefined>],
  limit: number,
  rowsMax: number,
): { items: RootRefBalance[]; resumeAfter: Hash | undefined } {
  const items: RootRefBalance[] = [];
  let left = current.next().value;
  let right = history.next().value;
  let last: Hash | undefined;
  for (let passed = 0; items.length < limit; passed++) {
    const isLeft = right === undefined || (left !== undefined && left.hash < right.hash);
    const next = isLeft ? left : right;
    if (next === undefined) break;
    // Stops only between two hashes, because the next step begins after the last one.
    if (passed >= rowsMax && next.hash !== last) return { items, resumeAfter: last };
    last = next.hash;
    if (next.balance !== undefined) items.push({ hash: next.hash, balance: next.balance });
    if (isLeft) left = current.next().value;
    else right = history.next().value;
  }
  return { items, resumeAfter: undefined };
}
