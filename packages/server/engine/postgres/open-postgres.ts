/** Opens a database: one pool for requests, one for the registry and background work. */
import { StoreUnavailable } from '../../core/store-failure.ts';
import { codeOf } from '../../error-code.ts';
import type { PostgresAddress } from '../address.ts';
import { EngineRefused } from '../refused.ts';
import { migrate } from './migrations.ts';
import { sealApps } from './registry-store.ts';
import { proveShared } from './sums/fill-sums.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS, type PostgresLimits } from './wire/limits.ts';

/** Errors that only a person can correct: password, rights, no such database, schema, certificates, a pooler in transaction mode. */
const LASTING_STATES = /^(?:28|26|3D|3F|42|0A|22|23|UNUSABLE_FILE$|NO_PASSWORD$|NOT_BOUND$|ERR_BORINGSSL$)/;

/** Resolves with a pool on a database that has this build's schema. @throws EngineRefused, StoreUnavailable */
export async function openPostgres(
  address: PostgresAddress,
  limits: Partial<PostgresLimits> = {},
): Promise<PostgresPool> {
  const pool = new PostgresPool(address, { ...POSTGRES_LIMITS, ...limits });
  try {
    await pool.assertOwnSessions();
    await migrate(pool);
    await proveShared(pool);
    await sealApps(pool);
    return pool;
  } catch (error) {
    await pool.close();
    throw explainOpening(address, error);
  }
}

/** The statements of this pool are small: if PostgreSQL takes longer, it counts as unavailable, and is soon asked again. */
const CONTROL_LIMITS: PostgresLimits = {
  ...POSTGRES_LIMITS,
  connectMs: 3000,
  statementMs: 4000,
  silenceMs: 1000,
};

/** For an opened database. Requests have other connections, so the registry and background work go on however many requests wait. */
export function openControlPool(address: PostgresAddress): PostgresPool {
  return new PostgresPool({ ...address, connectionsMax: 2 }, CONTROL_LIMITS);
}

/** Says whether waiting may help. */
export function explainOpening({ tls }: PostgresAddress, error: unknown): unknown {
  if (!(error instanceof StoreUnavailable)) return error;
  const state = codeOf(error.cause) ?? '';
  if (LASTING_STATES.test(state)) return new EngineRefused(error.message, { cause: error });
  // A server without TLS closes the connection. We close it if the server cannot prove who it is.
  const isTlsAskedFor = tls === 'require' || tls === 'verify-ca' || tls === 'verify-full';
  if (!isTlsAskedFor || state !== 'CONNECTION_CLOSED') return error;
  const advice = 'perhaps it has no TLS, or no certificate that is trusted: check sslmode and sslrootcert';
  return new StoreUnavailable(`${error.message}; ${advice}`, { cause: error.cause });
}

/** Whether the database has Holdfast's schema. Makes nothing. @throws StoreUnavailable */
export async function hasPostgresRows(address: PostgresAddress): Promise<boolean> {
  const pool = new PostgresPool({ ...address, connectionsMax: 1 }, POSTGRES_LIMITS);
  try {
    await pool.assertOwnSessions();
    const { rows } = await pool.read(
      'looking for tables',
      "SELECT to_regclass('spaces') IS NOT NULL AND to_regclass('holdfast_schema') IS NOT NULL AS exists",
      [],
    );
    return rows[0]?.exists === true;
  } finally {
    await pool.close();
  }
}
