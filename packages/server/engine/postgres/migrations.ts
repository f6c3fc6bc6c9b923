/**
 * Brings a database to this build's schema, also if many processes start at once. The row of `holdfast_schema` is the lock. The
 * migrations and their number are written in one transaction.
 */

import { EngineRefused } from '../refused.ts';
import { assertFit } from './database-fitness.ts';
import { codeOf, isRepeatable, storageError } from './failure.ts';
import initial from './migrations/0001-initial.sql' with { type: 'text' };
import apps from './migrations/0002-apps.sql' with { type: 'text' };
import copyMarks from './migrations/0003-copy-marks.sql' with { type: 'text' };
import rottenNodes from './migrations/0004-rotten-nodes.sql' with { type: 'text' };
import uploadPermits from './migrations/0005-upload-permits.sql' with { type: 'text' };
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly string[] = [initial, apps, copyMarks, rottenNodes, uploadPermits];

/** ms all migrations may take, and the wait for another process that runs them */
const PATIENCE_MS = 30 * 60_000;
const ATTEMPTS_MAX = 10;
const PAUSE_MS = 100;

const CREATE_TABLE =
  'CREATE TABLE IF NOT EXISTS holdfast_schema (id smallint PRIMARY KEY CHECK (id = 1), version integer NOT NULL)';
const CREATE_ROW = 'INSERT INTO holdfast_schema (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING';
const READ_VERSION = 'SELECT version FROM holdfast_schema WHERE id = 1';
/** What a process gets when another has created the same table at the same time. */
const MADE_BY_ANOTHER: ReadonlySet<string> = new Set(['23505', '42P07', '42710']);
const NO_TABLE = '42P01';

/** @throws EngineRefused, StoreUnavailable */
export async function migrate(pool: PostgresPool, migrations: readonly string[] = MIGRATIONS): Promise<void> {
  await assertFit(pool);
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await pool.lend((connection) => migrateOnce(connection, migrations));
        return;
      } catch (error) {
        const isPassing = isRepeatable(error) || MADE_BY_ANOTHER.has(codeOf(error) ?? '');
        if (!isPassing || attempt === ATTEMPTS_MAX) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * attempt * Math.random()));
      }
    }
  } catch (error) {
    throw storageError(error, 'migrating');
  }
}

async function migrateOnce(connection: PostgresConnection, migrations: readonly string[]): Promise<void> {
  if ((await findVersion(connection)) === migrations.length) return;
  await connection.script(CREATE_TABLE);
  await connection.script(CREATE_ROW);
  await connection.withPatience(PATIENCE_MS, async () => {
    await connection.script(
      `BEGIN; SET LOCAL statement_timeout = ${PATIENCE_MS}; SET LOCAL lock_timeout = ${PATIENCE_MS}`,
    );
    try {
      const { rows } = await connection.script(`${READ_VERSION} FOR UPDATE`);
      const version = rows[0]?.version as number;
      assertKnown(version, migrations.length);
      for (const sql of migrations.slice(version)) await connection.script(sql);
      const { command } = await connection.script(
        `UPDATE holdfast_schema SET version = ${migrations.length}; COMMIT`,
      );
      if (command !== 'COMMIT') throw new Error('PostgreSQL rolled the migration back');
    } catch (error) {
      await connection.script('ROLLBACK').catch(() => undefined);
      throw error;
    }
  });
}

async function findVersion(connection: PostgresConnection): Promise<number | undefined> {
  try {
    const { rows } = await connection.script(READ_VERSION);
    return rows[0]?.version as number | undefined;
  } catch (error) {
    if (codeOf(error) === NO_TABLE) return undefined;
    throw error;
  }
}

function assertKnown(version: number, known: number): void {
  if (version <= known) return;
  throw new EngineRefused(
    `the database has schema version ${version}, this build knows ${known}: run the newer Holdfast that migrated it, or restore a backup`,
  );
}
