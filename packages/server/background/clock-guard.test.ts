/** Clocks that disagree stop collection and the sweep, and nothing else, over the real embedded engine. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { sweep } from '../core/collect/sweep.ts';
import type { Core } from '../core/core.ts';
import { readMetadata } from '../core/read/read-metadata.ts';
import { type HandlerWorld, openHandlerWorld } from '../http/test/handler-fixture.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { ComparedClocks, SteadyRows } from './clock-guard.ts';

const SPACE = { appId: 'app', spaceId: 'space' };
const CLOCK_SKEW_MS_MAX = 120_000;
const NOW = 1_800_000_000_000;

let world: HandlerWorld;
beforeAll(async () => {
  world = await openHandlerWorld();
});
afterAll(() => world.close());

function guardWith(rowsMs: number, bytesMs?: number): ComparedClocks {
  const rows = { readClock: async () => NOW + rowsMs };
  const bytes = { readClockSkew: async () => bytesMs };
  return new ComparedClocks({ rows, bytes, now: () => NOW, elapsed: () => 0, skewMsMax: CLOCK_SKEW_MS_MAX });
}

test.each([
  [0, undefined],
  [CLOCK_SKEW_MS_MAX, -CLOCK_SKEW_MS_MAX],
])('rows %p ms off, bytes %p ms off: agree', async (rowsMs, bytesMs) => {
  await guardWith(rowsMs, bytesMs).assertAgree();
});

test.each([
  [CLOCK_SKEW_MS_MAX + 1, 0, /the database is more than 2m ahead of/],
  [-3_600_000, 0, /the database is more than 2m behind/],
  [0, 600_000, /the object store is more than 2m ahead of/],
])('rows %p ms off, bytes %p ms off: disagree', async (rowsMs, bytesMs, reason) => {
  await expect(guardWith(rowsMs, bytesMs).assertAgree()).rejects.toThrow(reason);
  const skews = METRICS.snapshot().holdfast_clock_skew_seconds;
  expect(skews?.get('source="rows"')).toBe(rowsMs / 1000);
});

test('collection and sweep stop, reads go on', async () => {
  const hash = await world.store(seededBytes(100, 1));
  const core: Core = { ...world.core, clocks: guardWith(3_600_000) };
  await expect(runGc(core, SPACE, 10)).rejects.toThrow('nothing is collected');
  await expect(sweep(core)).rejects.toThrow('nothing is collected or swept');
  expect((await readMetadata(core, SPACE, hash)).metadata.hash).toBe(hash);
});

test('a steady clock of the rows is believed; that the wall clock was set is said once', async () => {
  const said: string[] = [];
  let wallMs = 0;
  const guard = new SteadyRows({
    ...{ rows: { readClock: async () => NOW }, now: () => NOW + wallMs, skewMsMax: CLOCK_SKEW_MS_MAX },
    bytes: { readClockSkew: async () => undefined },
    onClockSet: (message) => said.push(message),
  });
  for (wallMs of [0, CLOCK_SKEW_MS_MAX, 3_600_000, 3_600_000, 0, -3_600_000]) await guard.assertAgree();
  expect(said).toEqual([expect.stringContaining('more than 2m ahead of'), expect.stringContaining('behind')]);
  expect(METRICS.snapshot().holdfast_clock_skew_seconds?.get('source="rows"')).toBe(3600);
});

test('wall clocks that jump together are found out by the monotonic clock, until the leases of before have run out', async () => {
  const HOUR_MS = 3_600_000;
  let elapsedMs = 0;
  let jumpedMs = 0;
  const now = (): number => NOW + elapsedMs + jumpedMs;
  const guard = new ComparedClocks({
    ...{ rows: { readClock: async () => now() }, bytes: {}, now },
    ...{ elapsed: () => elapsedMs, skewMsMax: CLOCK_SKEW_MS_MAX },
  });
  const isRefused = (): Promise<boolean> =>
    guard.assertAgree().then(
      () => false,
      (error: Error) => error.message.includes('has jumped ahead of what really elapsed'),
    );
  const at = (elapsed: number, jumped: number): Promise<boolean> => {
    [elapsedMs, jumpedMs] = [elapsed, jumped];
    return isRefused();
  };
  expect(await at(0, 0)).toBe(false);
  expect(await at(1, CLOCK_SKEW_MS_MAX)).toBe(false);
  expect(await at(2, CLOCK_SKEW_MS_MAX + 1)).toBe(true);
  // The clock is set right again.
  expect(await at(3, 0)).toBe(false);
  // Permanently ahead: the leases given before expire.
  expect(await at(HOUR_MS, HOUR_MS)).toBe(true);
  expect(await at(25 * HOUR_MS, HOUR_MS)).toBe(true);
  expect(await at(25 * HOUR_MS + 1, HOUR_MS)).toBe(false);
  // A jump backwards ends no lease, but leases given then would end early once the clock is right.
  expect(await at(26 * HOUR_MS, -HOUR_MS)).toBe(false);
  expect(await at(27 * HOUR_MS, HOUR_MS)).toBe(true);
  // A jump smaller than the permitted skew ends no lease early: it is subtracted from the instant by which leases are judged.
  [elapsedMs, jumpedMs] = [52 * HOUR_MS, HOUR_MS];
  expect(await guard.assertAgree()).toBe(NOW + elapsedMs + jumpedMs);
  jumpedMs += 90_000;
  expect(await guard.assertAgree()).toBe(NOW + elapsedMs + HOUR_MS);
  // Rows keep whole milliseconds: a database refuses a fraction.
  elapsedMs += 0.5;
  expect(Number.isInteger(await guard.assertAgree())).toBe(true);
  // A clock that drifts does not jump.
  for (let hours = 60; hours < 90; hours += 1) expect(await at(hours * HOUR_MS, hours * 1500)).toBe(false);
});
