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

/** Keeps a running lease's start, and never moves the expiry back. If `now` is before another process's start, the length stays full. */
export function renewLease(current: LeaseWindow, now: number, durationMs: number): LeaseWindow {
  const isRunning = current.leaseExpiresAt > now;
  return {
    leaseStartedAt: isRunning ? current.leaseStartedAt : now,
    leaseExpiresAt: Math.max(current.leaseExpiresAt, Math.max(now, current.leaseStartedAt) + durationMs),
  };
}

export function isSameLease(one: LeaseWindow, other: LeaseWindow): boolean {
  return one.leaseStartedAt === other.leaseStartedAt && one.leaseExpiresAt === other.leaseExpiresAt;
}
