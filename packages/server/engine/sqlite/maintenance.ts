/** Background upkeep in bounded steps, each inside one write batch: lease watermarks, root-ref history. */
import { CounterBroken } from '../../core/invariant.ts';
import type { Space } from '../../core/model.ts';
import { countersSum } from '../../core/rows/row-sums.ts';
import type { SweepCutoffs } from '../../core/upkeep-ports.ts';
import { USAGE_NONE } from '../../core/usage-delta.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { isHistorySound } from './ledger-rows.ts';
import type { WriteScope } from './write-scope.ts';

/** The position from which the walk over Spaces resumes; only in memory, so a restart starts a new round. */
export interface WatermarkWalk {
  afterSpace: number;
}

interface WatermarkStep {
  /** a part of this round is left */
  readonly isLeft: boolean;
  /** the error of the last Space whose count contradicts its rows; its watermark stays where it is */
  readonly broken: CounterBroken | undefined;
}

/** A round visits every Space that has counted leases once. */
export function moveWatermarks(scope: WriteScope, walk: WatermarkWalk, now: number): WatermarkStep {
  let broken: CounterBroken | undefined;
  for (let visited = 0; visited < 128; visited++) {
    const row = scope.find(scope.sql.nextSpaceLeased, walk.afterSpace);
    // A number with a wrong high bit is not exact: the row would be met again for ever.
    if (row === undefined || (row.id as number) <= walk.afterSpace) {
      walk.afterSpace = 0;
      return { isLeft: false, broken };
    }
    const id = row.id as number;
    try {
      if (moveWatermark(scope, id, row.lease_watermark as number, now)) return { isLeft: true, broken };
    } catch (error) {
      if (!(error instanceof CounterBroken)) throw error;
      broken = new CounterBroken(error.rule, findNames(scope, id));
    }
    walk.afterSpace = id;
  }
  return { isLeft: true, broken };
}

function findNames(scope: WriteScope, id: number): Space | undefined {
  const row = scope.find(scope.sql.findSpaceById, id);
  return row && { appId: row.app_id as string, spaceId: row.space_id as string };
}

/** Returns true when more leases of this Space have expired than one move passes. */
function moveWatermark(scope: WriteScope, id: number, watermark: number, now: number): boolean {
  const target = findTarget(scope, id, watermark, now);
  const passed = countBetween(scope, id, watermark, target);
  if (passed === 0) return false;
  const moved = { ...USAGE_NONE, leasedCount: -passed };
  const values = [id, target, passed, watermark, countersSum(moved, target - watermark)] as const;
  scope.writeOne('a watermark is as it was read', scope.sql.moveWatermark, ...values);
  scope.ledger.moveWatermark(id, target);
  scope.onUndo(() => scope.ledger.moveWatermark(id, watermark));
  return target < now;
}

function findTarget(scope: WriteScope, id: number, watermark: number, now: number): number {
  let target = now;
  for (const collectable of [0, 1]) {
    const row = scope.find(scope.sql.findLeaseAt, id, collectable, watermark, target, 2_000);
    if (row !== undefined) target = row.lease_expires_at as number;
  }
  return target;
}

function countBetween(scope: WriteScope, id: number, after: number, upTo: number): number {
  let count = 0;
  for (const collectable of [0, 1]) {
    const row = scope.find(scope.sql.countLeasesBetween, id, collectable, after, upTo);
    count += (row?.count as number | undefined) ?? 0;
  }
  return count;
}

/** Deletes old superseded balances and raises the domain's floor, so lost history is refused. True: more is left. */
export function pruneHistory(scope: WriteScope, cutoffs: Pick<SweepCutoffs, 'historyAt'>): boolean {
  const { sql } = scope;
  const rows = scope.findAll(sql.findOldHistory, cutoffs.historyAt, ROWS_PER_STATEMENT);
  const floors = new Map<number, number>();
  for (const row of rows) {
    // Damaged rows stay, because neither their age nor their owner is proven.
    if (!isHistorySound(row)) continue;
    const domain = row.domain as number;
    floors.set(domain, Math.max(floors.get(domain) ?? 0, row.to_revision as number));
    scope.writeOne(
      'history is as it was read',
      sql.deleteHistory,
      domain,
      row.hash as Uint8Array,
      row.from_revision as number,
    );
  }
  for (const [domain, floor] of floors) scope.write(sql.raiseHistoryFloor, domain, floor);
  return rows.length === ROWS_PER_STATEMENT;
}
