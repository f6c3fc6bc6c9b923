/** Safe figures for a damaged row: those of a recount, or figures that protect no less. */
import { storageError } from '../failure.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import type { SqlRow, SqlValue } from '../wire/sql-values.ts';
import type { StoredValues } from './stored-rows.ts';
import type { SummedTable } from './tables.ts';

const COUNT_MS_MAX = 30 * 60_000;
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

/** A sum in the result is a placeholder: the caller computes exactly these sums again. */
async function findFigures(pool: PostgresPool, row: SqlRow, table: string): Promise<SqlRow | undefined> {
  switch (table) {
    case 'domains': {
      const key = [row.space as string, row.domain as string];
      const [counted] = await countPatiently(pool, COUNT_DOMAIN, key);
      return { ...counted, count_sum: 0 };
    }
    // The counters are compared with a recount of the Space afterwards. No lease that is not counted ends later than now.
    case 'usage_counters':
      return {
        lease_watermark: Math.min(Math.max(0, row.lease_watermark as number), Date.now()),
        row_sum: 0,
      };
    // A tombstone starts again.
    case 'tombstones':
      return { noted_at: Date.now(), seen_at: Date.now(), row_sum: 0 };
    // The Space is listed.
    case 'spaces':
      return { purged: false, purged_sum: null };
    default:
      return undefined;
  }
}

/** A domain may have more rows than a statement of a request can count. */
export async function countPatiently(
  pool: PostgresPool,
  sql: string,
  parameters: readonly SqlValue[],
): Promise<readonly SqlRow[]> {
  try {
    return await pool.lend((connection) =>
      connection.withPatience(COUNT_MS_MAX, async () => {
        await connection.script(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${COUNT_MS_MAX}`);
        try {
          return (await connection.query(sql, parameters)).rows;
        } finally {
          await connection.rollback();
        }
      }),
    );
  } catch (error) {
    throw storageError(error, 'counting rows');
  }
}

function toStored(value: unknown): bigint | null {
  if (value === null) return null;
  return typeof value === 'boolean' ? BigInt(value) : BigInt(value as number);
}
