/** Decides which snapshots of a name a policy keeps. Pure: the same list, policy and time give the same answer. */

import { DAY_MS, formatDuration } from '@holdfast/protocol';
import { checkArray, checkNumber, checkObject } from '../arguments.ts';
import { CatalogError } from './catalog-error.ts';
import { compareSnapshots, type Snapshot } from './catalog-format.ts';
import { formatDay } from './find-snapshot.ts';

/** At least one rule. A snapshot that any rule keeps is kept. */
export interface RetentionPolicy {
  /** the newest N */
  readonly last?: number | undefined;
  /** those not older than this, ms */
  readonly withinMs?: number | undefined;
  /** the newest of each day, of so many days that have one */
  readonly daily?: number | undefined;
  /** the same of weeks, which begin on Monday */
  readonly weekly?: number | undefined;
  readonly monthly?: number | undefined;
}

export interface JudgedSnapshot extends Snapshot {
  /** why, in words, such as `daily 2026-11-22` */
  readonly reasons: readonly string[];
}

export interface Retention {
  /** by time */
  readonly kept: readonly JudgedSnapshot[];
  readonly forgotten: readonly JudgedSnapshot[];
}

/**
 * Judges `snapshots`, which are those of one name. Days, weeks and months are those of UTC; ones without a snapshot are not
 * counted. While a count of `last`, `daily`, `weekly` or `monthly` is not reached, the oldest snapshot is kept too, so that the
 * reach of the list grows until it is. Pinned snapshots are kept, and count as all others do. Throws CatalogError
 * INVALID_ARGUMENT without a rule or for a count below 1, TIME_IN_FUTURE, KEEPS_NOTHING.
 */
export function decideRetention(
  snapshots: readonly Snapshot[],
  policy: RetentionPolicy,
  now: number,
): Retention {
  const call = { name: 'decideRetention', requestOperation: 'listRootRefs' } as const;
  checkArray(call, 'the snapshots', snapshots);
  checkObject(call, 'the policy', policy);
  checkNumber(call, 'now', now, 0);
  checkPolicy(policy);
  const newestFirst = [...snapshots].sort(compareSnapshots).reverse();
  // The clocks of two machines may differ by a minute.
  const ahead = newestFirst.find(({ time }) => time > now + 60_000);
  if (ahead !== undefined) {
    throw new CatalogError(
      'TIME_IN_FUTURE',
      `snapshot ${ahead.id} of ${ahead.name} was made in the future (${formatInstant(ahead.time)}); a clock is or was wrong: check it, or forget that snapshot by its id`,
    );
  }
  const reasons = new Map<string, string[]>(newestFirst.map(({ id }) => [id, []]));
  const keep = ({ id }: Snapshot, reason: string): void => void reasons.get(id)?.push(reason);
  for (const [index, snapshot] of newestFirst.entries()) {
    if (index < (policy.last ?? 0)) keep(snapshot, `last ${index + 1}`);
    if (policy.withinMs !== undefined && now - snapshot.time <= policy.withinMs) {
      keep(snapshot, `within ${formatDuration(policy.withinMs)}`);
    }
  }
  for (const [kind, count, periodOf] of [
    ['daily', policy.daily, formatDay],
    ['weekly', policy.weekly, formatWeek],
    ['monthly', policy.monthly, formatMonth],
  ] as const) {
    if (count !== undefined)
      keepPeriods(newestFirst, count, periodOf, (of, period) => keep(of, `${kind} ${period}`));
  }
  for (const snapshot of newestFirst) if (snapshot.pinned) keep(snapshot, 'pinned');
  const judged = newestFirst.reverse().map((snapshot) => ({
    ...snapshot,
    reasons: reasons.get(snapshot.id) ?? [],
  }));
  const kept = judged.filter((snapshot) => snapshot.reasons.length > 0);
  if (kept.length === 0 && judged.length > 0) {
    throw new CatalogError(
      'KEEPS_NOTHING',
      'the policy keeps no snapshot at all; nothing was forgotten. To forget all of them, give --all and no policy',
    );
  }
  const forgotten = judged
    .filter((snapshot) => snapshot.reasons.length === 0)
    .map((snapshot) => ({ ...snapshot, reasons: ['no rule keeps it'] }));
  return { kept, forgotten };
}

function keepPeriods(
  newestFirst: readonly Snapshot[],
  count: number,
  periodOf: (time: number) => string,
  keep: (snapshot: Snapshot, period: string) => void,
): void {
  const periods = new Set<string>();
  for (const snapshot of newestFirst) {
    const period = periodOf(snapshot.time);
    if (periods.has(period) || periods.size === count) continue;
    periods.add(period);
    keep(snapshot, period);
  }
  const oldest = newestFirst.at(-1);
  if (oldest === undefined || periods.size === count) return;
  keep(oldest, `oldest (${periods.size} of ${count})`);
}

function checkPolicy({ withinMs, ...counts }: RetentionPolicy): void {
  const given = Object.entries(counts).filter(([, count]) => count !== undefined);
  if (given.length === 0 && withinMs === undefined) {
    throw new CatalogError('INVALID_ARGUMENT', 'a policy has at least one rule');
  }
  for (const [rule, count] of given) {
    if (Number.isSafeInteger(count) && (count as number) >= 1) continue;
    throw new CatalogError('INVALID_ARGUMENT', `${rule} keeps ${count}: it must be an integer of 1 or more`);
  }
  if (withinMs !== undefined && !(Number.isSafeInteger(withinMs) && withinMs > 0)) {
    throw new CatalogError('INVALID_ARGUMENT', 'within must be more than 0 ms');
  }
}

function formatMonth(time: number): string {
  return formatDay(time).replace(/-\d\d$/, '');
}

/** ISO 8601, such as `2026-W47`: a week belongs to the year of its Thursday. */
function formatWeek(time: number): string {
  const day = new Date(time);
  const thursday = new Date(time + (4 - (day.getUTCDay() || 7)) * DAY_MS);
  const year = thursday.getUTCFullYear();
  const week = 1 + Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / (7 * DAY_MS));
  return `${year}-W${String(week).padStart(2, '0')}`;
}

function formatInstant(time: number): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? `${time} ms` : date.toISOString();
}
