import { expect, test } from 'bun:test';
import { findLeaseWarning } from './options.ts';

test('a lease that the service shortens or lengthens is told, any other is not', () => {
  expect(findLeaseWarning('--lease', 48 * 3_600_000)).toStartWith('--lease 2d: the server protects for 24h');
  expect(findLeaseWarning('--lease', 1_000)).toStartWith('--lease 1s: the server protects for 1m');
  expect(findLeaseWarning('--lease', 24 * 3_600_000)).toBeUndefined();
  expect(findLeaseWarning('--lease', 60_000)).toBeUndefined();
});
