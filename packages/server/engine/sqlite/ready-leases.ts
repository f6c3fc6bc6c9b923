/** Renews ready rows: many renewals are one body of a batch, so that each costs little more than its statement. */
import type { Hash } from '@holdfast/protocol';
import { renewReadyRow } from '../../core/lease/lease-renewal.ts';
import type { LeaseWindow } from '../../core/lease-state.ts';
import type { Space } from '../../core/model.ts';
import { SqliteSpaceTransaction } from './space-transaction.ts';
import type { WriteScope } from './write-scope.ts';

export interface Renewal {
  readonly space: Space;
  readonly hash: Hash;
  /** clamped */
  readonly durationMs: number;
}

/** For each renewal in turn; undefined: there is no row, or it is not ready. Renewals of a Space share the object of its Space. */
export function renewReadyRows(
  scope: WriteScope,
  renewals: readonly Renewal[],
): readonly (LeaseWindow | undefined)[] {
  const transactions = new Map<Space, SqliteSpaceTransaction>();
  return renewals.map(({ space, hash, durationMs }) => {
    let tx = transactions.get(space);
    if (tx === undefined) {
      tx = new SqliteSpaceTransaction(scope, space);
      transactions.set(space, tx);
    }
    return renewReadyRow(tx, hash, durationMs) as LeaseWindow | undefined;
  });
}
