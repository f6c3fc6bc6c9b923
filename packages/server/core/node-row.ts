/** Rules of one node row, and comparisons of two states of it by the values that may change (docs/api.md, leaseNode and runGc). Pure. */
import { LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import type { NodeRow } from './model.ts';

export interface LeaseWindow {
  /** ms */
  readonly leaseStartedAt: number;
  /** ms */
  readonly leaseExpiresAt: number;
}

export function clampLeaseDuration(leaseDurationMs: number): number {
  return Math.min(Math.max(leaseDurationMs, LEASE_DURATION_MS_MIN), LEASE_DURATION_MS_MAX);
}

/** Keeps a running lease's start, and never moves the expiry back. If `now` is before another process's start, the length stays full. */
export function renewLease(current: LeaseWindow, now: number, durationMs: number): LeaseWindow {
  const isRunning = current.leaseExpiresAt > now;
  return {
    leaseStartedAt: isRunning ? current.leaseStartedAt : now,
    leaseExpiresAt: Math.max(current.leaseExpiresAt, Math.max(now, current.leaseStartedAt) + durationMs),
  };
}

export const isLeaseSame = (left: LeaseWindow, right: LeaseWindow): boolean =>
  left.leaseStartedAt === right.leaseStartedAt && left.leaseExpiresAt === right.leaseExpiresAt;

export const areCountsSame = (left: NodeRow, right: NodeRow): boolean =>
  left.childRefCount === right.childRefCount &&
  left.rootRefCount === right.rootRefCount &&
  left.heldDomainCount === right.heldDomainCount;

export const isStateSame = (left: NodeRow, right: NodeRow): boolean =>
  left.state === right.state &&
  left.generation === right.generation &&
  left.storage === right.storage &&
  left.storedSize === right.storedSize &&
  left.waitingTouchedAt === right.waitingTouchedAt &&
  left.claimHeldUntil === right.claimHeldUntil;

/** Judges everything except the lease: engines keep the result as an indexed flag beside `leaseExpiresAt`. */
export function isCollectable(row: NodeRow): boolean {
  return (
    (row.state === 'ready' || row.state === 'rotten') &&
    row.childRefCount === 0 &&
    row.rootRefCount === 0 &&
    row.heldDomainCount === 0
  );
}

export function isEligible(row: NodeRow, now: number): boolean {
  return isCollectable(row) && row.leaseExpiresAt <= now;
}
