/** engine/rows/balance-page.ts on SQLite. */
import type { Hash } from '@holdfast/protocol';
import { WALK_UNKNOWN } from '../../core/root-ref-walks.ts';
import { BALANCES_COUNTED_MAX } from '../../core/rows/row-sums.ts';
import type { BalancePageRequest, BalanceStep, Passed } from '../rows/balance-page.ts';
import { firstRevisionOf, isBalanceSound, isDomainSound, isHistorySound } from './ledger-rows.ts';
import { bytesToHex, damagedRow, hexToBytes } from './rows.ts';
import type { SpaceDirectory } from './space-directory.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

/** Before values of other types too: a hash whose type is wrong must be met. */
const BEFORE_ALL = Number.NEGATIVE_INFINITY;
const BEHIND_ALL = Number.MAX_SAFE_INTEGER;
/** a hash, or before all of them */
type After = Uint8Array | typeof BEFORE_ALL;

interface BalanceReads {
  readonly sql: ReadStatements;
  readonly spaces: Pick<SpaceDirectory, 'assertNoneLost'>;
}

/** Call inside one read transaction. */
export function readBalanceStep(
  { sql, spaces }: BalanceReads,
  spaceId: number,
  domain: string,
  page: BalancePageRequest,
  rowsMax: number,
): BalanceStep | undefined {
  const row = sql.findDomain.get(spaceId, domain);
  const latest = row === null ? firstRevisionOf(sql.readFirstRevision.get()) : (row.revision as number);
  const revision = page.revision === 'current' ? latest : page.revision;
  if (row === null) {
    spaces.assertNoneLost(spaceId, domain);
    return { revision, walkedUntil: WALK_UNKNOWN, current: [], history: [], isKnown: false };
  }
  if (!isDomainSound(row)) throw damagedRow('the domain', JSON.stringify(domain));
  const floor = Math.max(row.history_floor as number, row.walked_from as number);
  if (revision > latest || revision < floor) return undefined;
  const id = row.id as number;
  const after: After = page.after === undefined ? BEFORE_ALL : hexToBytes(page.after);
  const isLatest = revision === latest;
  if (page.after !== undefined) assertSeekLeads(sql, id, page.after, isLatest);
  else assertFirstIsFirst(sql, spaceId, domain, id);
  const current = readCurrent(sql, id, revision, after, isLatest ? page.limit : rowsMax);
  const history = isLatest ? [] : walkHistory(sql, id, revision, after, rowsMax);
  return { revision, walkedUntil: row.walked_until as number, current, history, isKnown: true };
}

/** Call inside one read transaction. @throws StoreUnavailable, as damage */
export function assertBalancesThere(sql: ReadStatements, spaceId: number, domain: string): void {
  const row = sql.findDomain.get(spaceId, domain);
  if (row === null || (row.balance_count as number) > BALANCES_COUNTED_MAX) return;
  if (sql.countBalances.get(row.id as number)?.count === row.balance_count) return;
  throw damagedRow('a balance of', JSON.stringify(domain));
}

/**
 * A row out of order misleads the search for where a page begins: past rows that follow, which no page then shows. It is the row right
 * before that place, so that row is proven too. At the latest revision it is the last one of the page before.
 * @throws StoreUnavailable, as damage
 */
function assertSeekLeads(sql: ReadStatements, id: number, after: Hash, isLatest: boolean): void {
  const row = sql.findBalanceUntil.get(id, hexToBytes(after));
  if (row !== null && !isBalanceSound(row)) throw damagedRow('a balance near', after);
  const isLast = row?.domain === id && bytesToHex(row.hash as Uint8Array) === after;
  if (isLatest && !isLast) throw damagedRow('the balance of', after);
}

/** The row before the first one is of another domain, which may be damaged: only the count says whether rows of this one are hidden. */
function assertFirstIsFirst(sql: ReadStatements, spaceId: number, domain: string, id: number): void {
  const row = sql.findBalanceUntil.get(id, BEFORE_ALL);
  if (row !== null && !isBalanceSound(row)) assertBalancesThere(sql, spaceId, domain);
}

/** Balances that already held at `revision` count. */
function readCurrent(
  sql: ReadStatements,
  id: number,
  revision: number,
  after: After,
  limit: number,
): Passed[] {
  return sql.findBalances.all(id, after, limit).map((row) => {
    const hash = bytesToHex(row.hash as Uint8Array);
    if (!isBalanceSound(row)) throw damagedRow('the balance of', hash);
    return { hash, balance: (row.from_revision as number) <= revision ? (row.balance as number) : null };
  });
}

/** Superseded balances that held at `revision` count. A hash costs four looks at most, however long its history is. */
function walkHistory(
  sql: ReadStatements,
  id: number,
  revision: number,
  start: After,
  rowsMax: number,
): Passed[] {
  const passed: Passed[] = [];
  let { behind } = lookAround(sql, id, start, BEHIND_ALL);
  while (behind?.domain === id && passed.length < rowsMax) {
    const key = behind.hash as Uint8Array;
    const hash: Hash = bytesToHex(key);
    const at = lookAround(sql, id, key, revision);
    const row = at.until !== null && isOf(at.until, id, hash) ? at.until : null;
    const stood = row !== null && (row.to_revision as number) > revision;
    passed.push({ hash, balance: stood ? (row.balance as number) : null });
    behind =
      at.behind !== null && isOf(at.behind, id, hash)
        ? lookAround(sql, id, key, BEHIND_ALL).behind
        : at.behind;
  }
  return passed;
}

const isOf = (row: SqlRow, id: number, hash: Hash): boolean =>
  row.domain === id && bytesToHex(row.hash as Uint8Array) === hash;

/**
 * The rows on both sides of a place. A search compares the key with both of them last, so a row out of order can mislead it only by
 * being one of them: both are proven.
 * @throws StoreUnavailable, as damage
 */
function lookAround(sql: ReadStatements, id: number, hash: After, revision: number) {
  const place = [id, hash, revision] as const;
  const sides = { until: sql.findHistoryUntil.get(...place), behind: sql.findHistoryAfter.get(...place) };
  for (const row of [sides.until, sides.behind]) {
    if (row !== null && !isHistorySound(row))
      throw damagedRow('the history of', bytesToHex(row.hash as Uint8Array));
  }
  return sides;
}
