/** The particulars of this engine's transactions: one batch per turn, foreign awaits, other processes, fatal ends. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CounterBroken } from '../../../core/invariant.ts';
import type { Space } from '../../../core/model.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { EngineRefused } from '../../refused.ts';
import { hashAt, insertNodes, ManualClock, NOW, readyNode, SPACE } from '../../test/samples.ts';
import { SqliteMetadataStore } from '../metadata-store.ts';
import { migrate } from '../migrations.ts';

let folder: string;
let path: string;
let store: SqliteMetadataStore;
let fatal: Error[];
const clock = new ManualClock();
/** However slow the machine is, a batch takes all that comes in its turn. */
const batchMsMax = Number.POSITIVE_INFINITY;
const open = (isShared = false) =>
  new SqliteMetadataStore({ path, clock, onFatal: (error) => fatal.push(error), isShared, batchMsMax });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-commit-'));
  path = join(folder, 'holdfast.db');
  fatal = [];
  store = open();
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true });
});

test('all bodies of one turn share one commit', async () => {
  await insertNodes(store, SPACE, [readyNode(hashAt(0))]);
  const watcher = new Database(path, { readonly: true });
  const seen = () => watcher.query<{ count: number }, []>('SELECT count(*) AS count FROM nodes').get()?.count;
  const counts: unknown[] = [];
  await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      store.transact(SPACE, async (tx) => {
        await tx.insert('node', readyNode(hashAt(index + 1)));
        counts.push(seen());
      }),
    ),
  );
  expect(counts).toEqual(Array.from({ length: 50 }, () => 1));
  expect(seen()).toBe(51);
  watcher.close();
});

test('a body that awaits anything but its transaction is cut off and rolled back, and delays nobody', async () => {
  let release = () => {};
  const foreign = new Promise<void>((resolve) => {
    release = resolve;
  });
  const bad = store.transact(SPACE, async (tx) => {
    await tx.insert('node', readyNode(hashAt(1)));
    await foreign;
    await tx.insert('node', readyNode(hashAt(2)));
  });
  const good = store.transact(SPACE, (tx) => tx.insert('node', readyNode(hashAt(3))));
  await expect(bad).rejects.toThrow('awaited something other than its transaction');
  await good;
  release();
  await Bun.sleep(1);
  const late = store.findNode(SPACE, hashAt(2));
  expect([store.findNode(SPACE, hashAt(1)), late]).toEqual([undefined, undefined]);
  expect(store.findNode(SPACE, hashAt(3))).toBeDefined();
  expect(store.readCounters(SPACE).nodeCount).toBe(1);
  expect(fatal).toEqual([]);
});

test('writes wait while another process writes, and reads do not', async () => {
  await insertNodes(store, SPACE, [readyNode(hashAt(1))]);
  const other = new Database(path);
  other.run('BEGIN IMMEDIATE');
  let isDone = false;
  const waiting = insertNodes(store, SPACE, [readyNode(hashAt(2))]).then(() => {
    isDone = true;
  });
  await Bun.sleep(30);
  expect(isDone).toBe(false);
  expect(store.findNode(SPACE, hashAt(1))).toBeDefined();
  other.run('COMMIT');
  other.close();
  await waiting;
  expect(store.findNode(SPACE, hashAt(2))).toBeDefined();
});

test('two processes write to one folder, and each sees what the other wrote', async () => {
  await store.close();
  store = open(true);
  const second = open(true);
  await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      insertNodes(index % 2 === 0 ? store : second, SPACE, [
        readyNode(hashAt(index), { leaseExpiresAt: NOW + 9 }),
      ]),
    ),
  );
  for (const one of [store, second]) {
    expect(one.readCounters(SPACE)).toMatchObject({ nodeCount: 40, leasedNodeCount: 40 });
  }
  await store.maintain({ now: NOW + 20, abandonedAt: 0, historyAt: 0 });
  await insertNodes(second, SPACE, [readyNode(hashAt(99), { leaseExpiresAt: NOW + 15 })]);
  for (const [at, leasedNodeCount] of [
    [NOW + 20, 0],
    [NOW + 10, 1],
  ] as const) {
    clock.set(at);
    expect(second.readCounters(SPACE)).toMatchObject({ leasedNodeCount });
  }
  clock.set(NOW);
  await second.close();
});

test('a broken invariant is fatal: nothing of the batch stays and nothing is written any more', async () => {
  await insertNodes(store, SPACE, [readyNode(hashAt(1))]);
  const beside = insertNodes(store, SPACE, [readyNode(hashAt(2))]);
  const stale = readyNode(hashAt(1), { leaseExpiresAt: NOW + 77 });
  const broken = store.transact(SPACE, (tx) =>
    tx.update('node', stale, { ...stale, leaseExpiresAt: NOW + 99 }),
  );
  for (const result of await Promise.allSettled([beside, broken])) {
    expect(String(result.status === 'rejected' && result.reason)).toContain('broken invariant');
  }
  expect(fatal).toHaveLength(1);
  await expect(insertNodes(store, SPACE, [readyNode(hashAt(3))])).rejects.toThrow('broken invariant');
  expect(store.findNode(SPACE, hashAt(2))).toBeUndefined();
  expect(store.findNode(SPACE, hashAt(1))?.leaseExpiresAt).toBe(0);
});

const OTHER: Space = { appId: 'app', spaceId: 'other' };

function meddle(statement: string): void {
  const meddler = new Database(path);
  meddler.run(statement);
  meddler.close();
}

test('a counter that would turn negative refuses the bodies of its Space, by name, and no other of the batch', async () => {
  const row = readyNode(hashAt(1));
  for (const space of [SPACE, OTHER]) await insertNodes(store, space, [row]);
  meddle("UPDATE spaces SET node_count = 0 WHERE space_id = 'space'");
  const outcomes = await Promise.allSettled([
    insertNodes(store, OTHER, [readyNode(hashAt(2))]),
    store.transact(SPACE, (tx) => tx.delete('node', row)),
    store.transact(OTHER, (tx) => tx.delete('node', row)),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  const { reason } = outcomes[1] as PromiseRejectedResult;
  expect(reason).toBeInstanceOf(StoreUnavailable);
  expect((reason as CounterBroken).space).toEqual(SPACE);
  expect(fatal).toEqual([]);
  expect(store.findNode(SPACE, hashAt(1))).toBeDefined();
  expect(store.readCounters(OTHER).nodeCount).toBe(1);
});

test('a counter of leases that is too low stops the watermark of its Space and of no other', async () => {
  const leased = readyNode(hashAt(1), { leaseExpiresAt: NOW + 5 });
  for (const space of [SPACE, OTHER]) {
    await insertNodes(store, space, [leased, { ...leased, hash: hashAt(2) }]);
  }
  meddle("UPDATE spaces SET leased_count = 1 WHERE space_id = 'space'");
  const maintained = store.maintain({ now: NOW + 10, abandonedAt: 0, historyAt: 0 });
  await expect(maintained).rejects.toThrow('Space "space" of App "app"');
  clock.set(NOW + 10);
  expect(store.readCounters(OTHER).leasedNodeCount).toBe(0);
  clock.set(NOW);
  expect(fatal).toEqual([]);
  const watermarks = new Database(path, { readonly: true });
  expect(watermarks.query('SELECT leased_count FROM spaces ORDER BY id').values()).toEqual([[1], [0]]);
  watermarks.close();
});

test('a database that may not grow refuses what is too much, keeps the rest, and goes on once it may grow', async () => {
  await insertNodes(store, SPACE, [readyNode(hashAt(1))]);
  const limited = new SqliteMetadataStore({
    path,
    clock,
    onFatal: (error) => fatal.push(error),
    isShared: false,
    databasePagesMax: 60,
  });
  const big = (index: number) => readyNode(hashAt(index), { refs: new Uint8Array(8192).fill(index) });
  let refused: unknown;
  let kept = 0;
  for (let index = 10; index < 100 && refused === undefined; index++) {
    await insertNodes(limited, SPACE, [big(index)]).then(
      () => {
        kept += 1;
      },
      (error) => {
        refused = error;
      },
    );
  }
  expect(refused).toBeInstanceOf(StoreUnavailable);
  expect((refused as Error).message).toContain('disk is full');
  expect(kept).toBeGreaterThan(0);
  expect(fatal).toEqual([]);
  expect(limited.readCounters(SPACE).nodeCount).toBe(kept + 1);
  await limited.close();
  await insertNodes(store, SPACE, [big(200)]);
  expect(store.readCounters(SPACE).nodeCount).toBe(kept + 2);
});

test('a closed store takes no body', async () => {
  const second = open();
  const last = insertNodes(second, SPACE, [readyNode(hashAt(1))]);
  await second.close();
  await last;
  await expect(insertNodes(second, SPACE, [readyNode(hashAt(2))])).rejects.toBeInstanceOf(StoreUnavailable);
});

test('migrations run once each, in order, and all or nothing', () => {
  const database = new Database(':memory:');
  const first = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  const second = (sql: string) => ({ sql, minCompatible: 1 });
  migrate(database, 'x', [first]);
  migrate(database, 'x', [first]);
  expect(() =>
    migrate(database, 'x', [first, second('CREATE TABLE two (a); CREATE TABLE two (a)')]),
  ).toThrow();
  const tables = () =>
    database
      .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .values()
      .flat();
  expect(tables()).toEqual(['one', 'holdfast_schema']);
  migrate(database, 'x', [first, second('CREATE TABLE two (a)')]);
  expect(tables()).toEqual(['one', 'holdfast_schema', 'two']);
  database.close();
});

test('a data folder of a newer version is refused and left as it is', async () => {
  await store.close();
  const database = new Database(path);
  const known = database.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version;
  const kept = database.query('SELECT * FROM holdfast_schema').values().flat() as number[];
  database.run('PRAGMA user_version = 999');
  database.run('PRAGMA application_id = 0');
  database.run('UPDATE holdfast_schema SET min_compatible_version = 999');
  expect(() => open()).toThrow(EngineRefused);
  expect(database.query('PRAGMA user_version').get()).toEqual({ user_version: 999 });
  database.run(`PRAGMA user_version = ${known}`);
  database.run('UPDATE holdfast_schema SET min_compatible_version = ?2 WHERE id = ?1', kept);
  database.close();
  store = open();
});

test('damage that a body meets without a guard fails that body alone, as damage', async () => {
  const met = Object.assign(new Error('planted'), { code: 'SQLITE_CORRUPT' });
  const [bad, good] = await Promise.allSettled([
    store.transact(SPACE, () => {
      throw met;
    }),
    insertNodes(store, SPACE, [readyNode(hashAt(1))]),
  ]);
  expect(bad).toMatchObject({ reason: { isDamage: true, cause: met } });
  expect(good.status).toBe('fulfilled');
  expect(fatal).toEqual([]);
});
