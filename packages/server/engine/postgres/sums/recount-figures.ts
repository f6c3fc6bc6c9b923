/** What the figures of a damaged row may safely be: a recount says so, or nothing is protected less by them. */
import type { PostgresPool } from '../wire/connection-pool.ts';
import type { SqlRow } from '../wire/sql-values.ts';
import type { StoredValues } from './stored-rows.ts';
import type { SummedTable } from './tables.ts';

const COUNT_DOMAIN = `SELECT (SELECT count(*) FROM root_ref_commits WHERE space = $1 AND domain = $2) AS commit_count,
  (SELECT count(*) FROM balances WHERE space = $1 AND domain = $2) AS balance_count`;

/** undefined: the table has none */
export async function findFigureMend(
  pool: PostgresPool,
  row: SqlRow,
  table: SummedTable,
): Promise<StoredValues | undefined> {
  const figures = await findFigures(pool, row, table.name);
  if (figures === undefined) return undefined;
  const sums = Object.entries(table.sumsOf({ ...row, ...figures })).filter(([column]) => column in figures);
  return Object.fromEntries(
    [...Object.entries(figures), ...sums].map(([column, value]) => [column, toStored(value)]),
  );
}

/** The sums that are given are those that are made anew. */
async function findFigures(pool: PostgresPool, row: SqlRow, table: string): Promise<SqlRow | undefined> {
  switch (table) {
    case 'domains': {
      const key = [row.space as string, row.domain as string];
      const { rows } = await pool.read('recounting a row', COUNT_DOMAIN, key);
      return { ...rows[0], count_sum: 0 };
    }
    // The counters are compared with a recount of the Space afterwards. No lease that is not counted ends later than now.
    case 'usage_counters':
      return {
        lease_watermark: Math.min(Math.max(0, row.lease_watermark as number), Date.now()),
        row_sum: 0,
      };
    // It begins anew.
    case 'tombstones':
      return { noted_at: Date.now(), seen_at: Date.now(), row_sum: 0 };
    // It is listed.
    case 'spaces':
      return { purged: false, purged_sum: null };
    default:
      return undefined;
  }
}

function toStored(value: unknown): bigint | null {
  if (value === null) return null;
  return typeof value === 'boolean' ? BigInt(value) : BigInt(value as number);
}
