import { expect, test } from 'bun:test';
import { DAY_MS, MINUTE_MS } from '@holdfast/protocol';
import fc from 'fast-check';
import { clampLeaseDuration, renewLease } from './node-row.ts';

test('durations are clamped to 60 seconds through 24 hours', () => {
  expect(clampLeaseDuration(1)).toBe(MINUTE_MS);
  expect(clampLeaseDuration(MINUTE_MS)).toBe(MINUTE_MS);
  expect(clampLeaseDuration(MINUTE_MS + 1)).toBe(MINUTE_MS + 1);
  expect(clampLeaseDuration(DAY_MS)).toBe(DAY_MS);
  expect(clampLeaseDuration(Number.MAX_SAFE_INTEGER)).toBe(DAY_MS);
});

test('a running lease keeps its start; one that ends this very instant has ended', () => {
  expect(renewLease({ leaseStartedAt: 5, leaseExpiresAt: 101 }, 100, 50)).toEqual({
    leaseStartedAt: 5,
    leaseExpiresAt: 150,
  });
  expect(renewLease({ leaseStartedAt: 5, leaseExpiresAt: 100 }, 100, 50)).toEqual({
    leaseStartedAt: 100,
    leaseExpiresAt: 150,
  });
});

test('a lease is never shortened, and covers what was asked', () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.nat(),
      fc.nat(),
      fc.integer({ min: 1 }),
      (startedAt, length, now, durationMs) => {
        const current = { leaseStartedAt: startedAt, leaseExpiresAt: startedAt + length };
        const renewed = renewLease(current, now, durationMs);
        expect(renewed.leaseExpiresAt).toBeGreaterThanOrEqual(current.leaseExpiresAt);
        expect(renewed.leaseExpiresAt).toBeGreaterThanOrEqual(now + durationMs);
        expect(renewed.leaseExpiresAt - renewed.leaseStartedAt).toBeGreaterThanOrEqual(durationMs);
        expect(renewed.leaseStartedAt).toBe(current.leaseExpiresAt > now ? startedAt : now);
      },
    ),
  );
});
