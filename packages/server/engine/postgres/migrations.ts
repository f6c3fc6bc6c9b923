/**
 * Brings a database to this build's schema, also if many processes start at once. A new database gets all of it in one transaction, whose
 * lock is the row of `holdfast_schema`. One that is in use is migrated in steps (migration-steps.ts).
 */

import { codeOf } from '../../error-code.ts';
import { EngineRefused } from '../refused.ts';
import {
  decideMigration,
  type FoundVersion,
  type Migration,
  proveVersion,
  type SchemaVersion,
  sealed,
  versionAfter,
} from '../schema-version.ts';
import { assertFit } from './database-fitness.ts';
import { guard, isRepeatable, storageError } from './failure.ts';
import { migrateInSteps, READ_VERSION, withoutConcurrency } from './migration-steps.ts';
import initial from './migrations/0001-initial.sql' with { type: 'text' };
import apps from './migrations/0002-apps.sql' with { type: 'text' };
import copyMarks from './migrations/0003-copy-marks.sql' with { type: 'text' };
import rottenNodes from './migrations/0004-rotten-nodes.sql' with { type: 'text' };
import uploadPermits from './migrations/0005-upload-permits.sql' with { type: 'text' };
import spacesByApp from './migrations/0006-spaces-by-app.sql' with { type: 'text' };
import limits from './migrations/0007-limits.sql' with { type: 'text' };
import tombstones from './migrations/0008-tombstones.sql' with { type: 'text' };
import packs from './migrations/0009-packs.sql' with { type: 'text' };
import contentsToPack from './migrations/0010-contents-to-pack.sql' with { type: 'text' };
import pending from './migrations/0011-pending.sql' with { type: 'text' };
import rowSums from './migrations/0012-row-sums.sql' with { type: 'text' };
import balanceCounts from './migrations/0013-balance-counts.sql' with { type: 'text' };
import plans from './migrations/0014-plans.sql' with { type: 'text' };
import moreSums from './migrations/0015-more-sums.sql' with { type: 'text' };
import appTotals from './migrations/0016-app-totals.sql' with { type: 'text' };
import appSums from './migrations/0017-app-sums.sql' with { type: 'text' };
import walks from './migrations/0018-walks.sql' with { type: 'text' };
import leaseDue from './migrations/0019-lease-due.sql' with { type: 'text' };
import schemaSeal from './migrations/0020-schema-seal.sql' with { type: 'text' };
import appTriggers from './migrations/0021-app-triggers.sql' with { type: 'text' };
import commitMarks from './migrations/0022-commit-marks.sql' with { type: 'text' };
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** In order. A shipped one keeps its result. Servers run during each statement: indexes are made CONCURRENTLY, rows changed by pages. */
export const MIGRATIONS: readonly Migration[] = [
  { sql: initial, minCompatible: 1 },
  { sql: apps, minCompatible: 2 },
  { sql: copyMarks, minCompatible: 3 },
  { sql: rottenNodes, minCompatible: 4 },
  { sql: uploadPermits, minCompatible: 5 },
  { sql: spacesByApp, minCompatible: 5 },
  { sql: limits, minCompatible: 5 },
  { sql: tombstones, minCompatible: 5 },
  // An older build would take the node of a pack for one whose object is lost.
  { sql: packs, minCompatible: 9 },
  { sql: contentsToPack, minCompatible: 9 },
  { sql: pending, minCompatible: 9 },
  // An older build would leave sums as they were, and every row that it changes would count as damaged.
  { sql: rowSums, minCompatible: 12 },
  // An older build would change balances and not their number.
  { sql: balanceCounts, minCompatible: 13 },
  { sql: plans, minCompatible: 13 },
  // An older build would leave these sums as they were.
  { sql: moreSums, minCompatible: 15 },
  { sql: appTotals, minCompatible: 15 },
  { sql: appSums, minCompatible: 17 },
  // An older build would not note its walks, and compare other sums.
  { sql: walks, minCompatible: 18 },
  // An older build would look for leases without an index.
  { sql: leaseDue, minCompatible: 19 },
  { sql: schemaSeal, minCompatible: 19 },
  { sql: appTriggers, minCompatible: 19 },
  { sql: commitMarks, minCompatible: 19 },
];

/** ms that making a new schema may take, and the wait for another process that makes it */
const PATIENCE_MS = 30 * 60_000;

const CREATE_TABLE = `CREATE TABLE IF NOT EXISTS holdfast_schema (
  id smallint PRIMARY KEY CHECK (id = 1), version integer NOT NULL, min_compatible_version integer NOT NULL DEFAULT 0,
  step integer NOT NULL DEFAULT 0, place text, seal integer
)`;
const HAS_COLUMNS = `SELECT 1 AS one FROM pg_attribute
  WHERE attrelid = 'holdfast_schema'::regclass AND attname = 'seal'`;
/** Tables of builds that did not record these lack the columns. */
const ADD_COLUMNS = `ALTER TABLE holdfast_schema ADD COLUMN IF NOT EXISTS min_compatible_version integer NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS step integer NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS place text, ADD COLUMN IF NOT EXISTS seal integer`;
const NAME = 'the database';
/** The errors of a process if another created the same table at the same time. */
const MADE_BY_ANOTHER: ReadonlySet<string> = new Set(['23505', '42P07', '42710']);
const NO_TABLE = '42P01';

/** @throws EngineRefused, StoreUnavailable */
export async function migrate(
  pool: PostgresPool,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<void> {
  await assertFit(pool);
  try {
    await pool.lend((connection) => mendVersion(connection, migrations));
    for (let attempt = 1; ; attempt += 1) {
      try {
        const isLeft = await pool.lend((connection) => prepare(connection, migrations));
        return isLeft ? await migrateInSteps(pool, NAME, migrations) : undefined;
      } catch (error) {
        const isPassing = isRepeatable(error) || MADE_BY_ANOTHER.has(codeOf(error) ?? '');
        if (!isPassing || attempt === 10) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100 * attempt * Math.random()));
      }
    }
  } catch (error) {
    throw storageError(error, 'migrating');
  }
}

const FIND_NAMES = `SELECT c.relname::text AS name, a.attname::text AS column FROM pg_class c
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND c.relkind = 'r'
  WHERE c.relnamespace = current_schema()::regnamespace`;

/** A wrong bit in the version must not run a migration twice, or leave one out. */
async function mendVersion(connection: PostgresConnection, migrations: readonly Migration[]): Promise<void> {
  const found = await findVersion(connection);
  if (found === undefined) return;
  const { version, minCompatible, step } = await prove(connection, found, migrations);
  const right = sealed({ version, minCompatible, step });
  if (Bun.deepEquals(right, found)) return;
  const isSealed = found.seal !== 0;
  if (!isSealed && version === found.version) return;
  const seal = isSealed ? `, seal = ${right.seal}` : '';
  await connection.query(
    `UPDATE holdfast_schema SET version = $1, min_compatible_version = $2, step = $3, place = NULL${seal}
      WHERE version = $4 AND min_compatible_version = $5 AND step = $6`,
    [version, minCompatible, step, found.version, found.minCompatible, found.step],
  );
}

async function prove(
  connection: PostgresConnection,
  found: FoundVersion,
  migrations: readonly Migration[],
): Promise<SchemaVersion> {
  const { rows } = await connection.query(FIND_NAMES, []);
  const names = new Set(rows.flatMap(({ name, column }) => [`${name}`, `${name}.${column}`]));
  return proveVersion(NAME, found, names, migrations, false);
}

/** The schema version of a database that this build can use, after migrating it or as it is. @throws EngineRefused */
export async function findUsableVersion(connection: PostgresConnection): Promise<number | undefined> {
  const found = await findVersion(connection);
  if (found === undefined) {
    await assertNobodysTables(connection, MIGRATIONS);
    return undefined;
  }
  const proven = await prove(connection, found, MIGRATIONS);
  decideMigration(NAME, proven, MIGRATIONS);
  return proven.version;
}

/** @throws EngineRefused when this build cannot use the database, StoreUnavailable */
export async function assertUsable(pool: PostgresPool): Promise<void> {
  const version = await guard('looking at the schema', () => pool.lend(findUsableVersion));
  if (version === undefined) throw new EngineRefused(`${NAME} has lost its tables: restore a backup`);
}

/** Makes the schema of a new database. Resolves whether there is an older one. */
async function prepare(connection: PostgresConnection, migrations: readonly Migration[]): Promise<boolean> {
  const found = await findVersion(connection);
  if (found !== undefined && !decideMigration(NAME, found, migrations)) return false;
  if (found === undefined || found.version === 0) await assertNobodysTables(connection, migrations);
  await makeVersionRow(connection);
  return connection.withPatience(PATIENCE_MS, async () => {
    await connection.script(
      `BEGIN; SET LOCAL statement_timeout = ${PATIENCE_MS}; SET LOCAL lock_timeout = ${PATIENCE_MS}`,
    );
    try {
      const { rows } = await connection.script(`${READ_VERSION} FOR UPDATE`);
      const before = rows[0] as unknown as SchemaVersion;
      const isDue = decideMigration(NAME, before, migrations);
      if (before.version > 0) {
        await connection.script('ROLLBACK');
        return isDue;
      }
      const after = versionAfter(migrations);
      for (const { sql } of migrations) await connection.script(withoutConcurrency(sql));
      const { command } = await connection.script(
        `UPDATE holdfast_schema SET version = ${after.version}, min_compatible_version = ${after.minCompatible},
          seal = ${sealed(after).seal}; COMMIT`,
      );
      if (command !== 'COMMIT') throw new Error('PostgreSQL rolled the migration back');
      return false;
    } catch (error) {
      await connection.script('ROLLBACK').catch(() => undefined);
      throw error;
    }
  });
}

const MADE_RELATION = /^CREATE (?:UNLOGGED )?(?:TABLE|INDEX) (?:CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+)/gm;
const FIND_RELATIONS = `SELECT relname::text AS name FROM pg_class
  WHERE relnamespace = current_schema()::regnamespace AND relname = ANY($1::text[]) ORDER BY relname`;

/** Refuses a database with foreign tables that have our names, before anything is created in it. @throws EngineRefused */
async function assertNobodysTables(
  connection: PostgresConnection,
  migrations: readonly Migration[],
): Promise<void> {
  const names = migrations.flatMap(({ sql }) =>
    [...sql.matchAll(MADE_RELATION)].map(([, name]) => name as string),
  );
  const { rows } = await connection.query(FIND_RELATIONS, [names]);
  if (rows.length === 0) return;
  // Another process may have made them since: it says so in the same transaction.
  const version = (await findVersion(connection))?.version ?? 0;
  if (version > 0) return;
  const told = rows.slice(0, 3).map(({ name }) => name);
  throw new EngineRefused(
    `${NAME} has relations of another program (${told.join(', ')}), and nothing was made in it: give Holdfast one of its own (CREATE DATABASE holdfast)`,
  );
}

/** Looks before it alters: the table's lock would wait for a migration that another process runs. */
async function makeVersionRow(connection: PostgresConnection): Promise<void> {
  await connection.script(CREATE_TABLE);
  const { rows } = await connection.script(HAS_COLUMNS);
  if (rows.length === 0) await connection.script(ADD_COLUMNS);
  await connection.script('INSERT INTO holdfast_schema (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING');
}

async function findVersion(connection: PostgresConnection): Promise<FoundVersion | undefined> {
  try {
    const { rows } = await connection.script(READ_VERSION);
    return rows[0] as unknown as FoundVersion | undefined;
  } catch (error) {
    if (codeOf(error) === NO_TABLE) return undefined;
    throw error;
  }
}
