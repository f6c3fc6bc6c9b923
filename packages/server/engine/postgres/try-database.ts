/** Looks whether a database can be used, without making anything in it. */
import { EPOCH_NOTE } from '../../core/store-epoch.ts';
import type { PostgresAddress } from '../address.ts';
import { EngineRefused } from '../refused.ts';
import type { RowsTrial } from '../store-trial.ts';
import { assertFit, checksumsFromSql, PAGE_CHECKSUMS } from './database-fitness.ts';
import { adviseOnSchema, storageError } from './failure.ts';
import { findUsableVersion } from './migrations.ts';
import { explainOpening } from './open-postgres.ts';
import { STORE_ID, STORE_MARK } from './secrets.ts';
import { FIND_NOTE } from './tombstones.ts';
import type { PostgresConnection } from './wire/connection.ts';
import { PostgresPool } from './wire/connection-pool.ts';
import { POSTGRES_LIMITS } from './wire/limits.ts';
import { byteaToBytes } from './wire/wire-messages.ts';

/** Tells this session from those of servers. */
const NAME_SESSION = "SET application_name = 'holdfast-check'";
const READ_FACTS = `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "now",
  coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS "mayCreate",
  coalesce(current_schema(), 'public') AS schema, ${PAGE_CHECKSUMS} AS checksums,
  (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name IN ('holdfast', $1)) AS sessions`;
// A database of an older version has no notes yet.
const HAS_NOTES = "SELECT to_regclass('notes') IS NOT NULL AS has";
const READ_STORE_VALUES = 'SELECT name, value FROM secrets WHERE name IN ($1, $2)';

/** @throws EngineRefused, StoreUnavailable */
export async function tryDatabase(address: PostgresAddress): Promise<RowsTrial> {
  const pool = new PostgresPool({ ...address, connectionsMax: 1 }, POSTGRES_LIMITS);
  try {
    await pool.assertOwnSessions();
    await assertFit(pool);
    return await pool.lend(async (connection) => {
      await connection.script(NAME_SESSION);
      const askedAt = Date.now();
      const { rows } = await connection.query(READ_FACTS, [pool.applicationName]);
      const machineNow = (askedAt + Date.now()) / 2;
      const { now, mayCreate, schema, sessions, checksums } = rows[0] as Record<string, unknown>;
      const version = await findUsableVersion(connection);
      if (version === undefined && mayCreate !== true) {
        throw new EngineRefused(
          `the role may not make tables in the schema ${schema}: ${adviseOnSchema(String(schema))}`,
        );
      }
      return {
        isServed: Number(sessions) > 0,
        version,
        ...(version === undefined ? NO_IDENTITY : await readIdentity(connection)),
        epoch: await findEpoch(connection),
        clockAheadMs: Math.round(Number(now) - machineNow),
        pageChecksums: checksumsFromSql(checksums),
      };
    });
  } catch (error) {
    throw explainOpening(address, storageError(error, 'looking at the database'));
  } finally {
    await pool.close();
  }
}

type Identity = Pick<RowsTrial, 'storeId' | 'isMarked'>;

const NO_IDENTITY: Identity = { storeId: undefined, isMarked: false };

async function readIdentity(connection: PostgresConnection): Promise<Identity> {
  const { rows } = await connection.query(READ_STORE_VALUES, [STORE_ID, STORE_MARK]);
  const id = rows.find(({ name }) => name === STORE_ID);
  return {
    storeId: id && Buffer.from(byteaToBytes(id.value)).toString(),
    isMarked: rows.some(({ name }) => name === STORE_MARK),
  };
}

async function findEpoch(connection: PostgresConnection): Promise<number | undefined> {
  const { rows: known } = await connection.query(HAS_NOTES);
  if (known[0]?.has !== true) return undefined;
  const { rows } = await connection.query(FIND_NOTE, [EPOCH_NOTE]);
  return rows[0] === undefined ? undefined : Number(rows[0].value);
}
