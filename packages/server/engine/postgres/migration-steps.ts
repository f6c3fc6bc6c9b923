/**
 * Migrates a database that is in use from one schema to the next while servers keep running. Each statement of a migration is a step,
 * and `holdfast_schema` holds the last finished step. A step that waits for a table lock blocks all later requests for it. So it waits
 * for a moment, lets them pass and tries again. Indexes are created concurrently. One process migrates, and the others wait for it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  decideMigration,
  type FoundVersion,
  type Migration,
  type SchemaVersion,
  sealed,
  versionAfter,
} from '../schema-version.ts';
import { isRepeatable } from './failure.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** between two tries of a step, and two looks at what another process does */
const PAUSE_MS = 1_000;
/** An index of a large table takes hours. */
const STEP_MS_MAX = 7 * 86_400_000;
/** The lock of the process that migrates. The digits are the ASCII of `holdfast`, and one. */
const LOCK = '7525352680829580149';

const MADE_ALONE = /^CREATE INDEX CONCURRENTLY (\w+)/;
/** A step that keeps its place there runs until it changes nothing. */
const IS_REPEATED = /\bholdfast_schema\b/;

/** As JSON, because columns may be missing. */
export const READ_VERSION = `SELECT version, coalesce((to_jsonb(s) ->> 'min_compatible_version')::integer, 0) AS "minCompatible",
  coalesce((to_jsonb(s) ->> 'step')::integer, 0) AS step, coalesce((to_jsonb(s) ->> 'seal')::integer, 0) AS seal FROM holdfast_schema s WHERE id = 1`;

/** For a database that is not in use: creates indexes without CONCURRENTLY. */
export const withoutConcurrency = (sql: string): string => sql.replaceAll('INDEX CONCURRENTLY', 'INDEX');

/** The statements of a migration. Each ends a line; none of a function's body does. */
export function stepsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;[ \t]*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

export async function migrateInSteps(
  pool: PostgresPool,
  name: string,
  migrations: readonly Migration[],
): Promise<void> {
  const own = pool.openAlike({ connectionsMax: 1, limits: { statementMs: STEP_MS_MAX, lockMs: 0 } });
  try {
    await own.lend((connection) =>
      connection.withPatience(STEP_MS_MAX, async () => {
        const isLeft = async (): Promise<FoundVersion | undefined> => {
          const { rows } = await connection.script(READ_VERSION);
          const place = rows[0] as unknown as FoundVersion;
          return decideMigration(name, place, migrations) ? place : undefined;
        };
        while (!(await takeLock(connection))) {
          if ((await isLeft()) === undefined) return;
          await sleep(PAUSE_MS);
        }
        // The lock ends with the session.
        for (let place = await isLeft(); place !== undefined; place = await isLeft()) {
          await runStep(connection, place, migrations);
        }
      }),
    );
  } finally {
    await own.close();
  }
}

async function takeLock(connection: PostgresConnection): Promise<boolean> {
  const { rows } = await connection.script(`SELECT pg_try_advisory_lock(${LOCK}) AS taken`);
  return rows[0]?.taken === true;
}

async function runStep(
  connection: PostgresConnection,
  place: FoundVersion,
  migrations: readonly Migration[],
): Promise<void> {
  const steps = stepsOf((migrations[place.version] as Migration).sql);
  const sql = steps[place.step];
  const made = sql === undefined ? undefined : MADE_ALONE.exec(sql)?.[1];
  for (let tries = 1; ; tries += 1) {
    try {
      if (made !== undefined && sql !== undefined) await makeIndex(connection, made, sql);
      return await inTransaction(connection, place, async () => {
        const { count } =
          sql === undefined || made !== undefined ? { count: 0 } : await connection.script(sql);
        const isAgain = sql !== undefined && IS_REPEATED.test(sql) && count > 0;
        const step = place.step + (isAgain ? 0 : 1);
        const isLast = step >= steps.length;
        const after = isLast ? versionAfter(migrations.slice(0, place.version + 1)) : { ...place, step };
        // A build that knows no seal may go on with an interrupted migration: it would leave the seal of an earlier step.
        const isSealed = place.seal !== 0 || (isLast && after.version === migrations.length);
        const minCompatible = Math.max(after.minCompatible, place.minCompatible);
        return `version = ${after.version}, min_compatible_version = ${minCompatible}, step = ${after.step},
          seal = ${isSealed ? sealed({ ...after, minCompatible }).seal : 'NULL'}${isAgain ? '' : ', place = NULL'}`;
      });
    } catch (error) {
      if (!isRepeatable(error) || tries === 500) throw error;
      await sleep(PAUSE_MS * (0.5 + Math.random()));
    }
  }
}

/** Runs `work` and stores the progress that it returns in one transaction, unless another process has already done the step. */
async function inTransaction(
  connection: PostgresConnection,
  { version, step }: SchemaVersion,
  work: () => Promise<string>,
): Promise<void> {
  // Longer than PostgreSQL waits before it ends an autovacuum that is in the way (deadlock_timeout, 1 s).
  await connection.script('BEGIN; SET LOCAL lock_timeout = 1500');
  try {
    const { rows } = await connection.script(`${READ_VERSION} FOR UPDATE`);
    const now = rows[0] as unknown as SchemaVersion;
    if (now.version !== version || now.step !== step) return await connection.rollback();
    const { command } = await connection.script(`UPDATE holdfast_schema SET ${await work()}; COMMIT`);
    if (command !== 'COMMIT') throw new Error('PostgreSQL rolled the migration back');
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}

/** Runs outside any transaction. An invalid index that an interrupted attempt left is dropped first. */
async function makeIndex(connection: PostgresConnection, name: string, sql: string): Promise<void> {
  const { rows } = await connection.script(`SELECT indisvalid AS "isWhole" FROM pg_index
    WHERE indexrelid = to_regclass('${name}')`);
  if (rows[0]?.isWhole === true) return;
  if (rows.length > 0) await connection.script(`DROP INDEX CONCURRENTLY ${name}`);
  await connection.script(sql);
}
