/** Sums over the Spaces of an App. */
import type { AppTotals } from '../../core/tenancy-ports.ts';
import { totalsFromSql } from './rows.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

export async function readAppTotals(pool: PostgresPool, appId: string): Promise<AppTotals> {
  const { rows } = await pool.read('reading what an App stores', SQL.sumCounters, [appId]);
  const [row] = rows;
  if (row === undefined) throw new Error('a sum has one row');
  return { spaces: row.spaces as number, ...totalsFromSql(row) };
}
