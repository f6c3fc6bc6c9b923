/** Quotas of Apps over all their Spaces: exact within a process, and some seconds old where others store too. */
import { beforeEach, expect, test } from 'bun:test';
import type { MetadataStore } from '../core/ports.ts';
import type { Excess, Reservation } from '../core/quotas.ts';
import { QuotaWatch } from './quota-watch.ts';

const SPACE = { appId: 'app', spaceId: 'space' };
const LIMIT = 10;
const ONE = { bytes: 0, nodes: 1 };

let now: number;
/** the total of all processes, as the database reports it */
let stored: number;
let readings: number;
/** while set, a reading waits after its query */
let gate: Promise<void> | undefined;
let failure: Error | undefined;
let watch: QuotaWatch;

beforeEach(() => {
  now = 1_000_000;
  stored = 0;
  readings = 0;
  gate = undefined;
  failure = undefined;
  watch = new QuotaWatch(
    () => ({ space: undefined, app: { maxBytes: undefined, maxNodes: LIMIT } }),
    { readAppTotals },
    () => now,
  );
});

const readAppTotals: MetadataStore['readAppTotals'] = async () => {
  readings += 1;
  const totals = { spaces: 1, readyStoredBytes: 0, waitingBytes: 0, nodeCount: stored };
  if (gate !== undefined) await gate;
  if (failure !== undefined) throw failure;
  return totals as Awaited<ReturnType<MetadataStore['readAppTotals']>>;
};

const isRoom = (outcome: Excess | Reservation): outcome is Reservation => 'settle' in outcome;

async function take(): Promise<Reservation> {
  const outcome = await watch.reserve(SPACE, ONE);
  if (!isRoom(outcome)) throw new Error(`no room: ${JSON.stringify(outcome)}`);
  return outcome;
}

async function store(): Promise<void> {
  const reservation = await take();
  stored += 1;
  reservation.settle(true);
}

const hasRoom = async (): Promise<boolean> => (await watch.findAppExcess(SPACE, ONE)) === undefined;

test('room that one caller holds is refused to others, and unused room is free again', async () => {
  stored = LIMIT - 2;
  const [first, second] = [await take(), await take()];
  let third: Excess | Reservation | undefined;
  const waiting = watch.reserve(SPACE, ONE).then((outcome) => {
    third = outcome;
  });
  await Bun.sleep(0);
  // Whether there is room depends on the outcome of the other requests.
  expect(third).toBeUndefined();
  stored += 1;
  first.settle(true);
  second.settle(false);
  await waiting;
  expect(isRoom(third as Excess | Reservation)).toBe(true);
});

test('bytes that this process stored count before the sum is read again', async () => {
  stored = LIMIT - 3;
  for (let count = 0; count < 3; count += 1) await store();
  expect(readings).toBe(1);
  expect(await hasRoom()).toBe(false);
});

test('bytes stored during a reading of the sum count, whether the reading saw them or not', async () => {
  stored = LIMIT - 2;
  const reservation = await take();
  const release = Promise.withResolvers<void>();
  gate = release.promise;
  now += 1_500;
  // This reading queries before the node is stored and ends after it.
  const other = await take();
  stored += 1;
  reservation.settle(true);
  release.resolve();
  await Bun.sleep(0);
  gate = undefined;
  stored += 1;
  other.settle(true);
  expect(await hasRoom()).toBe(false);
  expect(stored).toBe(LIMIT);
});

test('before a refusal the sum is read anew, so room freed by another process is found', async () => {
  stored = LIMIT;
  expect(await hasRoom()).toBe(false);
  stored = LIMIT - 1;
  now += 900;
  expect(await hasRoom()).toBe(true);
});

test('what other processes store is seen outside requests after 1 s, and within a request after 4 s', async () => {
  stored = 0;
  await store();
  stored = LIMIT;
  now += 1_001;
  // This request uses the old sum and starts a reading for the next one.
  expect(await hasRoom()).toBe(true);
  await Bun.sleep(0);
  expect([await hasRoom(), readings > 1]).toEqual([false, true]);
  stored = 0;
  now += 300;
  expect(await hasRoom()).toBe(true);
  now += 4_001;
  failure = new Error('the database is away');
  await expect(watch.reserve(SPACE, ONE)).rejects.toThrow('away');
});

test('a sum that takes long to read is used meanwhile, and read again after some times as long', async () => {
  const long = Promise.withResolvers<void>();
  gate = long.promise;
  const first = hasRoom();
  now += 10_000;
  long.resolve();
  expect(await first).toBe(true);
  for (const ms of [0, 10_000, 20_000]) {
    now += ms;
    expect([await hasRoom(), readings]).toEqual([true, 1]);
  }
  now += 1;
  expect([await hasRoom(), readings]).toEqual([true, 2]);
});
