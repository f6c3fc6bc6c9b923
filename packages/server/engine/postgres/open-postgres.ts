/**
 * The door of this room. Composition:
 *
 *     const pool = await openPostgres(address);       // connects once and migrates; EngineRefused, StoreUnavailable
 *     await PostgresMetadataStore.open({ pool, onFatal })   // core/ports.ts; no clock: the database's decides
 *     await findOrCreateSecret(pool, 'signer', () => bytes)
 *     new PostgresTurns(pool, holder)
 *     await pool.close()                              // last: closing a store leaves the pool open
 *
 * For stores of one's own on the same database: `pool.read(doing, text, parameters)` and `pool.run(…)` run one statement
 * (`$1` …; rows as in sql-values.ts: bytea is `\x…` text, int8 a number), `pool.lend(work)` lends one connection for a
 * transaction. Tables come by a numbered file in `migrations/` that is named in migrations.ts; `apps` is there already.
 */
import type { PostgresAddress } from '../address.ts';
import { migrate } from './migrations.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS, type PostgresLimits } from './wire/limits.ts';

/** Resolves with a pool on a database that has this build's schema. @throws EngineRefused, StoreUnavailable */
export async function openPostgres(
  address: PostgresAddress,
  limits: Partial<PostgresLimits> = {},
): Promise<PostgresPool> {
  const pool = new PostgresPool(address, { ...POSTGRES_LIMITS, ...limits });
  try {
    await migrate(pool);
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/** Whether a Holdfast was ever here. Makes nothing. @throws StoreUnavailable */
export async function hasPostgresRows(address: PostgresAddress): Promise<boolean> {
  const pool = new PostgresPool({ ...address, connectionsMax: 1 }, POSTGRES_LIMITS);
  try {
    const { rows } = await pool.read(
      'looking for tables',
      "SELECT to_regclass('spaces') IS NOT NULL AS exists",
      [],
    );
    return rows[0]?.exists === true;
  } finally {
    await pool.close();
  }
}
