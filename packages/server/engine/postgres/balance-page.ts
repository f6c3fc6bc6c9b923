/** engine/rows/balance-page.ts on PostgreSQL. */
import type { Hash } from '@holdfast/protocol';
import type { Space, SpaceKey } from '../../core/model.ts';
import { WALK_UNKNOWN } from '../../core/root-ref-walks.ts';
import { BALANCES_COUNTED_MAX } from '../../core/rows/row-sums.ts';
import type { BalanceReads, BalanceStep, Passed } from '../rows/balance-page.ts';
import { damagedDomain, RowDamaged } from './damage.ts';
import {
  balanceSum,
  type DomainState,
  domainCountSum,
  domainStateFromSql,
  domainSum,
  historySum,
  withSuperseded,
} from './row-sums.ts';
import { SQL } from './statements.ts';
import { assertStartKnown } from './tombstones.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/wire-messages.ts';

const DOING = 'reading root refs';

/** `firstRevision`: of a domain without a commit. `share`: whose share of the connections is used. */
export function balanceReads(
  pool: PostgresPool,
  space: SpaceKey,
  domain: string,
  firstRevision = 0,
  share?: Space,
): BalanceReads {
  return {
    async readStep({ revision, after, limit }, rowsMax) {
      if (revision === 'current')
        return findLatest(pool, { space, domain, firstRevision }, after, limit, share);
      const parameters: SqlValue[] = [space, domain, startOf(after), revision, rowsMax];
      const { rows } = await pool.read(DOING, SQL.findBalancesAt, parameters, share);
      const known = rows.find(({ kind }) => kind === -1);
      const at = { space, domain, revision, firstRevision };
      if (isCovered(at, known))
        return {
          ...{ revision, walkedUntil: WALK_UNKNOWN, isKnown: true },
          ...{ current: passedNow(at, rows), history: passedThen(at, rows) },
        };
      if (known === undefined) await assertNoRests(pool, space, domain, share);
      return undefined;
    },
    assertAllThere: () => assertAllThere(pool, space, domain, share),
  };
}

async function findLatest(
  pool: PostgresPool,
  { space, domain, firstRevision }: Omit<At, 'revision'>,
  after: Hash | undefined,
  limit: number,
  share: Space | undefined,
): Promise<BalanceStep> {
  const parameters = [space, domain, startOf(after), limit];
  const { rows } = await pool.read(DOING, SQL.findLatestBalances, parameters, share);
  const [first] = rows;
  if (first?.has_rests === true) throw damagedDomain(domain);
  if (first === undefined || first.revision === null) {
    assertStartKnown(firstRevision);
    return {
      ...{ revision: firstRevision, walkedUntil: WALK_UNKNOWN },
      ...{ current: [], history: [], isKnown: false },
    };
  }
  const revision = first.revision as number;
  const state = domainStateFromSql(first);
  assertDomain(space, domain, [revision, state], first.domain_sum);
  const current = rows
    .filter(({ hash }) => hash !== null)
    .map((row) => {
      const [hash, balance] = [byteaToHex(row.hash), row.balance as number];
      const sum = balanceSum(space, { domain, hash, balance, since: row.from_revision as number });
      assertBalance(hash, domain, row.row_sum, sum);
      return { hash, balance };
    });
  return { revision, walkedUntil: state.walkedUntil, current, history: [], isKnown: true };
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

/** A domain with commits or balances must have a row, because without it the revision is unknown. */
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
  [revision, state]: readonly [number, DomainState],
  sum: unknown,
): void {
  if (sum !== null && sum !== domainSum(space, domain, revision, state)) throw damagedDomain(domain);
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
  const [latest, floor, walkedFrom] = [known.balance, known.since, known.until] as number[];
  const state = { floor, walkedFrom, walkedUntil: known.superseded_at } as DomainState;
  assertDomain(space, domain, [latest as number, state], known.row_sum);
  return revision <= (latest as number) && revision >= Math.max(state.floor, state.walkedFrom);
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

const startOf = (after: Hash | undefined): string => (after === undefined ? '\\x' : hexToBytea(after));
