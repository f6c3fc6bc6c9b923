/**
 * The totals of all Spaces of an App, and those of one Space. An App is counted once, in one snapshot; then its changes, which triggers note
 * (migrations/0016-app-totals.sql), are added. If a total is not proven, the App is counted again.
 */
import type { SpaceKey } from '../../core/model.ts';
import type { AppTotals, SpaceHoldings } from '../../core/tenancy-ports.ts';
import { holdingsFromSql, usageFromSql } from '../rows/codecs.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { TOTALS } from './app-total-statements.ts';
import { guard, isRepeatable } from './failure.ts';
import { areSlotsProven, COUNTER_COLUMNS } from './row-sums.ts';
import { spaceKeyFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import type { SqlRow, SqlValue } from './wire/wire-messages.ts';

/** `BEGIN` of a snapshot that may write */
const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off';

export async function readAppTotals(
  pool: PostgresPool,
  appId: string,
  spacesAtOnce = ROWS_PER_STATEMENT,
): Promise<AppTotals> {
  const { rows } = await pool.read('reading what an App stores', SQL.findAppTotals, [appId]);
  const [found] = rows;
  if (found?.is_known !== true) return countApp(pool, appId, spacesAtOnce);
  if ((found.changes as number) > 1_000) await foldAppChanges(pool);
  return totalsOf(found);
}

/** Adds what was noted to the totals. Resolves true when a part is left. */
export async function foldAppChanges(pool: PostgresPool): Promise<boolean> {
  const { rows } = await pool.run('adding up changes of Apps', SQL.foldAppChanges, ['', ROWS_PER_STATEMENT]);
  return rows[0]?.count === ROWS_PER_STATEMENT;
}

export async function readHoldings(pool: PostgresPool, space: SpaceKey): Promise<SpaceHoldings> {
  const { rows } = await pool.read('reading what a Space holds', SQL.sumHoldings, [space]);
  const [row] = rows;
  if (row === undefined) throw new Error('a sum has one row');
  return holdingsFromSql(row);
}

/** Changes are kept from before the snapshot on. A count beside another process's, or one whose changes were added up, is not kept. */
async function countApp(pool: PostgresPool, appId: string, spacesAtOnce: number): Promise<AppTotals> {
  const { rows } = await pool.run('counting an App', SQL.beginAppCount, [appId]);
  const since = (rows[0]?.since as number | undefined) ?? null;
  let isKept = false;
  try {
    return await inSnapshot(pool, async (connection) => {
      const sums = await sumSpaces(connection, appId, spacesAtOnce);
      if (since !== null) isKept = await keepCount(connection, [appId, since, ...sums.columns]);
      return sums.totals;
    });
  } finally {
    // An unfinished count would block other counts until it expires.
    if (since !== null && !isKept)
      await pool.run('counting an App', SQL.endAppCount, [appId, since]).catch(() => undefined);
  }
}

async function keepCount(connection: PostgresConnection, values: readonly SqlValue[]): Promise<boolean> {
  try {
    await connection.query(SQL.keepAppCount, [...values]);
    await connection.script('COMMIT');
    return true;
  } catch (error) {
    if (!isRepeatable(error)) throw error;
    return false;
  }
}

/** `kept`: undefined if no totals are kept, or if a process counts the App now */
export function compareAppTotals(
  pool: PostgresPool,
  appId: string,
): Promise<{ readonly kept: AppTotals | undefined; readonly counted: AppTotals }> {
  return inSnapshot(pool, async (connection) => {
    const { rows } = await connection.query(SQL.findAppTotals, [appId]);
    const { totals } = await sumSpaces(connection, appId, ROWS_PER_STATEMENT);
    return { kept: rows[0]?.is_known === true ? totalsOf(rows[0]) : undefined, counted: totals };
  });
}

const inSnapshot = <T>(pool: PostgresPool, work: (connection: PostgresConnection) => Promise<T>) =>
  readPatiently(pool, 'reading what an App stores', BEGIN, work);

/** ms; a large App takes seconds, a large domain minutes */
export const PATIENCE_MS = 30 * 60_000;

/** Runs `work` on many rows in a transaction that `begin` opens. It is rolled back at the end, unless `work` commits it. */
export function readPatiently<T>(
  pool: PostgresPool,
  doing: string,
  begin: string,
  work: (connection: PostgresConnection) => Promise<T>,
): Promise<T> {
  const run = async (connection: PostgresConnection): Promise<T> => {
    await connection.script(begin);
    try {
      return await work(connection);
    } finally {
      await connection.rollback();
    }
  };
  return guard(doing, () =>
    pool.lend((connection) => connection.withPatience(PATIENCE_MS, () => run(connection))),
  );
}

const SUMMED: readonly string[] = [...COUNTER_COLUMNS.filter((column) => column !== 'leased_count')];

/** In pages, because no statement sums a large App in its time. A Space whose counters contradict their sum adds nothing but itself. */
async function sumSpaces(connection: PostgresConnection, appId: string, spacesAtOnce: number) {
  const sums: Record<string, number> = {};
  let [after, atOnce]: [string | null, number] = ['00000000-0000-0000-0000-000000000000', spacesAtOnce];
  while (after !== null) {
    const { rows } = await connection.query(SQL.sumCounters, [appId, after, atOnce]);
    const page = rows[0] as SqlRow;
    const isProven = areSlotsProven(page, slotsOf(page.slots_of as string | null));
    if (!isProven && atOnce > 1) {
      atOnce = 1;
      continue;
    }
    for (const column of TOTALS) {
      const isBelieved = isProven || !SUMMED.includes(column);
      sums[column] = (sums[column] ?? 0) + (isBelieved ? (page[column] as number) : 0);
    }
    after = (page.space_count as number) < atOnce ? null : (page.last as string | null);
    atOnce = isProven ? spacesAtOnce : 1;
  }
  return { totals: totalsOf(sums), columns: TOTALS.map((column) => sums[column] as number) };
}

/** As `sumCounters` lists them: a Space and its slots, then a comma. */
const slotsOf = (listed: string | null): ReadonlyMap<string, string> =>
  new Map(
    (listed?.split(',') ?? []).map((each) => {
      const [space = '', ...slots] = each.split(' ');
      return [spaceKeyFromSql(space), slots.join(' ')];
    }),
  );

const totalsOf = (row: SqlRow): AppTotals => ({
  spaces: row.space_count as number,
  ...usageFromSql(row),
  ...holdingsFromSql(row),
});
