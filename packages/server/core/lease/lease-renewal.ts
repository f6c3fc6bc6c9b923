/** Renewing the lease of a row that is ready: the one lease that changes nothing but its own end. */
import { ApiError, type Hash } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { after } from '../awaitable.ts';
import { isSameLease, type LeaseWindow, renewLease } from '../lease-state.ts';
import type { NodeRow } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';

/** Renews the lease of a row that is ready; undefined: it is not, or there is none. */
export function renewReadyRow(
  tx: SpaceTransaction,
  hash: Hash,
  durationMs: number,
): Awaitable<LeaseWindow | undefined> {
  return after(tx.findNode(hash), (node) =>
    node?.state === 'ready' ? moveLease(tx, node, durationMs) : undefined,
  );
}

/** Renews the lease of a ready row. */
export function moveLease(tx: SpaceTransaction, node: NodeRow, durationMs: number): Awaitable<LeaseWindow> {
  const lease = renewLease(node, tx.now, durationMs);
  if (isSameLease(lease, node)) return lease;
  return after(tx.update('node', node, { ...node, ...lease }), () => lease);
}

/** The error for a lease other than a renewal while the server makes no changes. */
export const changesRefused = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'the server makes no changes at the moment; try again shortly');
