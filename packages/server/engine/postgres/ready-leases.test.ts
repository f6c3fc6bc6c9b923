/** Renewals that wait for each other share a statement. */
import { expect, test } from 'bun:test';
import { SPACE } from '../test/samples.ts';
import { ReadyLeases } from './ready-leases.ts';

const WAIT_MS = 60_000;

test('a statement locks its rows in hash order, each for the longest duration', async () => {
  const sent: unknown[] = [];
  const leases = new ReadyLeases(async (_space, _key, hashes, durationsMs) => {
    sent.push(hashes, durationsMs);
    return [];
  }, WAIT_MS);
  const asked = [
    ['c', 1],
    ['a', 2],
    ['b', 3],
    ['a', 4],
  ] as const;
  await Promise.all(asked.map(([hash, durationMs]) => leases.renew(SPACE, 'key', hash, durationMs)));
  expect(sent).toEqual([
    ['\\xa', '\\xb', '\\xc'],
    [4, 3, 1],
  ]);
});
