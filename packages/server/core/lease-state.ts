/** Lease arithmetic (docs/api.md, leaseNode). Pure. */
import { LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';

export interface LeaseWindow {
  /** ms */
  readonly leaseStartedAt: number;
  /** ms */
  readonly leaseExpiresAt: number;
}

export function clampLeaseDuration(leaseDurationMs: number): number {
  return Math.min(Math.max(leaseDurationMs, LEASE_DURATION_MS_MIN), LEASE_DURATION_MS_MAX);
}

/**
 * The start is kept while the lease runs; the expiry never moves back. `durationMs` is already clamped. A store's `now` may be
 * a little before the start, where another process made the lease while this request waited: the lease is as long all the same.
 */
export function renewLease(current: LeaseWindow, now: number, durationMs: number): LeaseWindow {
  const isRunning = current.leaseExpiresAt > now;
  return {
    leaseStartedAt: isRunning ? current.leaseStartedAt : now,
    leaseExpiresAt: Math.max(current.leaseExpiresAt, Math.max(now, current.leaseStartedAt) + durationMs),
  };
}
