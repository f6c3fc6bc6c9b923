/** Looks at PostgreSQL's `data_checksums`: sums of rows prove values, and only these find damage to all else of a page. */
import type { PageChecksums } from '../store-trial.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** As SQL: 'on', 'off', or NULL where the server has no such setting. While they are being switched on they prove nothing yet. */
export const PAGE_CHECKSUMS = "current_setting('data_checksums', true)";

/** undefined: the server does not say, as relatives of PostgreSQL */
export function checksumsFromSql(setting: unknown): PageChecksums | undefined {
  if (typeof setting !== 'string') return undefined;
  return setting === 'on' ? 'on' : 'off';
}

export async function findPageChecksums(pool: PostgresPool): Promise<PageChecksums | undefined> {
  const { rows } = await pool.read('reading data_checksums', `SELECT ${PAGE_CHECKSUMS} AS setting`, []);
  return checksumsFromSql(rows[0]?.setting);
}
