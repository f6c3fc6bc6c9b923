/** Sums over the Spaces of an App, and what one Space holds. */
import type { SpaceKey } from '../../core/model.ts';
import type { AppTotals, SpaceHoldings } from '../../core/tenancy-ports.ts';
import { holdingsFromSql, totalsFromSql } from './counters.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

export async function readAppTotals(pool: PostgresPool, appId: string): Promise<AppTotals> {
  const { rows } = await pool.read('reading what an App stores', SQL.sumCounters, [appId]);
  const [row] = rows;
  if (row === undefined) throw new Error('a sum has one row');
  return { spaces: row.spaces as number, ...totalsFromSql(row), ...holdingsFromSql(row) };
}

export async function readHoldings(pool: PostgresPool, space: SpaceKey): Promise<SpaceHoldings> {
  const { rows } = await pool.read('reading what a Space holds', SQL.sumHoldings, [space]);
  const [row] = rows;
  if (row === undefined) throw new Error('a sum has one row');
  return holdingsFromSql(row);
}
