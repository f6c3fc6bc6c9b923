/** The counters of Spaces as reads answer them. Call each inside one read, so that its statements see the same commit. */

import type { KeptCounters } from '../../core/inspection-ports.ts';
import type { SpaceCounters } from '../../core/model.ts';
import { countersSum, isSum, mixValues, PURGED_WEIGHT } from '../../core/rows/row-sums.ts';
import { isDamage } from '../../core/store-failure.ts';
import type { AppTotals, SpaceEntry, SpaceHoldings, SpacePage } from '../../core/tenancy-ports.ts';
import { addUsage, isEmpty, NO_HOLDINGS, USAGE_NONE } from '../../core/usage-delta.ts';
import { isDamageMet, storageError } from '../local-failure.ts';
import { holdingsFromSql, keptFromSql, usageFromSql } from '../rows/codecs.ts';
import { damagedRow } from './rows.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

export const NO_COUNTERS: SpaceCounters = {
  ...USAGE_NONE,
  leasedNodeCount: 0,
};

export function readHoldingsOf(sql: Pick<ReadStatements, 'findHoldings'>, id: number): SpaceHoldings {
  const row = sql.findHoldings.get(id);
  return row === null ? NO_HOLDINGS : holdingsFromSql(row);
}

export function readCountersOf(sql: ReadStatements, id: number, now: number): SpaceCounters {
  const row = sql.findCounters.get(id);
  if (row === null) return NO_COUNTERS;
  if (!areCountersSound(row)) throw damagedRow('the counters of the Space with the id', String(id));
  const leasedNodeCount = countLeases(
    sql,
    id,
    row.leased_count as number,
    row.lease_watermark as number,
    now,
  );
  return { ...usageFromSql(row), leasedNodeCount };
}

export function listSpaces(
  sql: ReadStatements,
  { appId, after, limit }: SpacePage,
  now: number,
): readonly SpaceEntry[] {
  const from = Number(after ?? 0);
  const rows = orIfDamaged(
    () =>
      appId === undefined ? sql.listSpaces.all(from, limit) : sql.listSpacesOfApp.all(from, limit, appId),
    // The names are in an index too.
    () => sql.listSpaceNames.all(from, limit, appId ?? null),
  );
  return rows.map((row) => ({
    space: { appId: row.app_id as string, spaceId: row.space_id as string },
    ...orIfDamaged<Pick<SpaceEntry, 'counters' | 'holdings' | 'isPurged' | 'damage'>>(
      () => readEntry(sql, row, now),
      (damage) => ({ counters: undefined, holdings: undefined, isPurged: false, damage }),
    ),
    position: String(row.id),
  }));
}

function readEntry(
  sql: ReadStatements,
  row: SqlRow,
  now: number,
): Pick<SpaceEntry, 'counters' | 'holdings' | 'isPurged'> {
  const id = row.id as number;
  const counters = readCountersOf(sql, id, now);
  const holdings = readHoldingsOf(sql, id);
  return { counters, holdings, isPurged: row.purged === 1 && isEmpty(counters, holdings) };
}

function orIfDamaged<T>(read: () => T, instead: (damage: unknown) => T): T {
  try {
    return read();
  } catch (error) {
    if (!isDamageMet(error) && !isDamage(error)) throw error;
    return instead(storageError(error, 'reading'));
  }
}

export function readAppTotals(sql: ReadStatements, appId: string): AppTotals {
  const holdings = sql.sumHoldings.get(appId);
  if (holdings === null) throw new Error('a sum has one row');
  return appTotalsFromSql(sql.countersOfApp.iterate(appId), holdings);
}

/** A Space whose counters contradict their sum adds nothing but itself. */
export function appTotalsFromSql(counters: Iterable<SqlRow>, holdings: SqlRow): AppTotals {
  let spaces = 0;
  let usage = USAGE_NONE;
  for (const row of counters) {
    spaces += 1;
    if (areCountersSound(row)) usage = addUsage(usage, usageFromSql(row));
  }
  return { spaces, ...usage, ...holdingsFromSql(holdings) };
}

export const NOTHING_COUNTED: KeptCounters = { ...USAGE_NONE, leasedCount: 0 };

/** The sum of the counters of a Space; its names have a sum of their own. */
export function countersSumOf(id: number, counters: KeptCounters, watermark: number): number {
  return mixValues([id]) + countersSum(counters, watermark);
}

export function areCountersSound(row: SqlRow): boolean {
  return isSum(
    row.row_sum,
    countersSumOf(row.id as number, keptFromSql(row), row.lease_watermark as number) +
      PURGED_WEIGHT * (row.purged as number),
  );
}

/** The counter has leases that end after the watermark. Those before now have ended, unless the clock stepped back. */
function countLeases(
  sql: ReadStatements,
  id: number,
  counted: number,
  watermark: number,
  now: number,
): number {
  if (now >= watermark) return counted - countLeasesBetween(sql, id, watermark, now);
  return counted + countLeasesBetween(sql, id, now, watermark);
}

function countLeasesBetween(sql: ReadStatements, id: number, after: number, upTo: number): number {
  let count = 0;
  for (const collectable of [0, 1]) {
    const row = sql.countLeasesBetween.get(id, collectable, after, upTo);
    count += (row?.count as number | undefined) ?? 0;
  }
  return count;
}
