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
import { accessSync, constants } from 'node:fs';
import { StoreUnavailable } from '../../core/ports.ts';
import type { PostgresAddress } from '../address.ts';
import { EngineRefused } from '../refused.ts';
import { codeOf } from './failure.ts';
import { migrate } from './migrations.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS, type PostgresLimits } from './wire/limits.ts';

/** SQL states that only a person can change: wrong password or user, no such database, no rights, a schema that does not fit. */
const LASTING_STATES = /^(?:28|3D|42|0A|22|23)/;

/** Resolves with a pool on a database that has this build's schema. @throws EngineRefused, StoreUnavailable */
export async function openPostgres(
  address: PostgresAddress,
  limits: Partial<PostgresLimits> = {},
): Promise<PostgresPool> {
  if (address.tlsRootFile !== undefined) assertReadable(address.tlsRootFile);
  const pool = new PostgresPool(address, { ...POSTGRES_LIMITS, ...limits });
  try {
    await migrate(pool);
    return pool;
  } catch (error) {
    await pool.close();
    throw error instanceof StoreUnavailable ? explain(address, error) : error;
  }
}

function assertReadable(path: string): void {
  try {
    accessSync(path, constants.R_OK);
  } catch {
    throw new EngineRefused(
      `the certificates ${path} of --metadata cannot be read: correct sslrootcert, or its mode`,
    );
  }
}

function explain({ tls }: PostgresAddress, error: StoreUnavailable): Error {
  const state = codeOf(error.cause) ?? '';
  if (LASTING_STATES.test(state)) return new EngineRefused(error.message, { cause: error });
  // A server without TLS hangs up, and so do we when it cannot prove who it is.
  const isTlsAskedFor = tls === 'require' || tls === 'verify-full';
  if (!isTlsAskedFor || state !== 'CONNECTION_CLOSED') return error;
  const advice = 'perhaps it has no TLS, or no certificate that is trusted: check sslmode and sslrootcert';
  return new StoreUnavailable(`${error.message}; ${advice}`, { cause: error.cause });
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
