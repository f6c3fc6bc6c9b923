/** Sums over the Spaces of an App, and what one Space holds. */
import type { SpaceKey } from '../../core/model.ts';
import type { AppTotals, SpaceHoldings } from '../../core/tenancy-ports.ts';
import { holdingsFromSql, totalsFromSql } from './counters.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** Spaces of one statement */
const SPACES_AT_ONCE = 1_000;
const BEFORE_ALL_SPACES = '00000000-0000-0000-0000-000000000000';

/** In pages, because no statement sums a large App in its time: what is stored meanwhile counts or not. */
export async function readAppTotals(
  pool: PostgresPool,
  appId: string,
  spacesAtOnce = SPACES_AT_ONCE,
): Promise<AppTotals> {
  let totals: Record<string, number> = {};
  for (let after: string | null = BEFORE_ALL_SPACES; after !== null; ) {
    const parameters = [appId, after, spacesAtOnce];
    const { rows } = await pool.read('reading what an App stores', SQL.sumCounters, parameters);
    const { last, ...sums } = rows[0] as Record<string, number> & { last: string | null };
    totals = Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, (totals[name] ?? 0) + sum]));
    after = (sums.spaces as number) < spacesAtOnce ? null : last;
  }
  return { spaces: totals.spaces as number, ...totalsFromSql(totals), ...holdingsFromSql(totals) };
}

export async function readHoldings(pool: PostgresPool, space: SpaceKey): Promise<SpaceHoldings> {
  const { rows } = await pool.read('reading what a Space holds', SQL.sumHoldings, [space]);
  const [row] = rows;
  if (row === undefined) throw new Error('a sum has one row');
  return holdingsFromSql(row);
}
