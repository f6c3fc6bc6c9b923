import { expect, test } from 'bun:test';
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { findLeaseMs } from './received-values.ts';

const MIB_BYTES = 1024 * 1024;

test('what is stored of a body outlasts a slow line, and is not kept for a day where its length is known', () => {
  const bytesPerMs = 50;
  for (const bytes of [MIB_BYTES, 64 * MIB_BYTES, 1024 * MIB_BYTES]) {
    expect(findLeaseMs(bytes)).toBeGreaterThan(bytes / bytesPerMs);
    expect(findLeaseMs(bytes)).toBeLessThan(LEASE_DURATION_MS_MAX);
  }
  expect([findLeaseMs(undefined), findLeaseMs(1e15)]).toEqual([LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MAX]);
});
