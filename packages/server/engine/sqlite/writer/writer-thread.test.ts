/** Rows are written in a thread of their own: answered writes are seen, failures keep their reason, and nothing is left over. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import { nextTurn } from '../../../../../test/support/embedded-files.ts';
import { makeTempFolder } from '../../../../../test/support/temp-folder.ts';
import { until } from '../../../../../test/support/until.ts';
import { decideLease } from '../../../core/lease/lease-decision.ts';
import { finishUpload } from '../../../core/lease/receive-node.ts';
import type { UploadRules } from '../../../core/lease/upload-rules.ts';
import { commitRootRefs } from '../../../core/refs/update-root-refs.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { SteadyClock, takeTimeOrigin } from '../../steady-clock.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../../test/samples.ts';
import { SqliteMetadataStore } from '../metadata-store.ts';
import { hexToBytes } from '../rows.ts';
import { WriteAheadLog } from '../write-ahead-log.ts';
import { LocalRowWriter } from './row-writer.ts';
import { ThreadRowWriter } from './thread-row-writer.ts';

const clock = { now: () => Date.now() };
const RULES: UploadRules = {
  ...{ uploads: 'server', activeUploadsMax: 2, uploadTtlMs: 60_000 },
  ...{ isDiskFull: false, keepReplacedMs: 0 },
};
const NODES = 4;

let folder: ReturnType<typeof makeTempFolder>;
let path: string;
let store: SqliteMetadataStore;
let fatal: Error[];

const onFatal = (error: Error): void => {
  fatal.push(error);
};

beforeEach(async () => {
  folder = makeTempFolder('writer-thread');
  path = join(folder.path, 'holdfast.db');
  fatal = [];
  const first = new SqliteMetadataStore({ path, clock, onFatal, isShared: false });
  await insertNodes(
    first,
    SPACE,
    Array.from({ length: NODES }, (_, index) => readyNode(hashAt(index))),
  );
  await first.close();
  store = new SqliteMetadataStore({ path, clock, onFatal, isShared: false, hasThread: true });
});
afterEach(async () => {
  await store.close();
  folder.remove();
});

const lease = (index: number, durationMs = 60_000, fresh = '00'.repeat(10)) => {
  const request = { hash: hashAt(index), durationMs, renewsOnly: false };
  const input = { request, inspection: undefined, fresh, rules: RULES, quotas: undefined };
  return store.transact(SPACE, decideLease, input);
};

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error) => error,
  );

test('a read never shows an older state than was answered or read before', async () => {
  const answered = new Map<number, number>();
  let isOver = false;
  const renew = async (index: number): Promise<void> => {
    for (let round = 1; round <= 40; round += 1) {
      const decision = await lease(index, 60_000 + round * 1000);
      if (decision.kind !== 'ready') throw new Error(decision.kind);
      expect(store.findNode(SPACE, hashAt(index))?.leaseExpiresAt).toBe(decision.leaseExpiresAt);
      answered.set(index, decision.leaseExpiresAt);
    }
  };
  const read = async (): Promise<void> => {
    const shown = new Map<number, number>();
    for (let look = 0; !isOver; look += 1) {
      const index = look % NODES;
      const node =
        look % 3 === 0
          ? store.findNodeWithContent(SPACE, hashAt(index))?.node
          : store.findNode(SPACE, hashAt(index));
      const seen = node?.leaseExpiresAt ?? -1;
      expect(seen).toBeGreaterThanOrEqual(Math.max(answered.get(index) ?? 0, shown.get(index) ?? 0));
      shown.set(index, seen);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const reading = [read(), read()];
  await Promise.all(Array.from({ length: NODES }, (_, index) => renew(index)));
  isOver = true;
  await Promise.all(reading);
  expect(fatal).toEqual([]);
});

test('counts that a commit changed are seen once it is answered', async () => {
  for (let revision = 1; revision <= 20; revision += 1) {
    expect(store.findNode(SPACE, hashAt(0))?.rootRefCount).toBe(revision - 1);
    const reads = { domain: 'd', requestId: String(revision), hashes: [hashAt(0)] };
    const commit = { ...reads, deltas: [1], payloadDigest: String(revision).padStart(64, '0') };
    expect(await store.transact(SPACE, commitRootRefs, commit)).toMatchObject({ revision });
  }
});

test('bytes go there and come back', async () => {
  const opened = await lease(10);
  if (opened.kind !== 'upload') throw new Error(opened.kind);
  const { hash, generation } = opened.row;
  const inlineBytes = new Uint8Array([1, 2, 3]);
  const evidence = {
    verdict: 'good',
    canonicalSize: 3,
    size: 1,
    contentType: 'text/plain',
    refs: new Uint8Array(0),
    integrity: new Uint8Array([9]),
    inline: true,
  } as const;
  const finished = { hash, generation, evidence, inlineBytes, isSealed: false };
  expect(await store.transact(SPACE, finishUpload, finished)).toBe(true);
  expect(await lease(10)).toMatchObject({ kind: 'ready' });
  expect(store.findNodeWithContent(SPACE, hash)?.content?.inlineBytes).toEqual(inlineBytes);
});

test('renewals that go together are answered each for itself, and seen once they are answered', async () => {
  const other = { appId: SPACE.appId, spaceId: 'other' };
  const before = Date.now();
  const asked = Array.from({ length: NODES * 20 }, (_, index) => ({
    hash: hashAt(index % NODES),
    durationMs: 60_000 + index * 1000,
  }));
  const renewed = asked.map(async ({ hash, durationMs }) => {
    const lease = await store.renewReadyLease(SPACE, hash, durationMs);
    expect(lease?.leaseStartedAt).toBeGreaterThanOrEqual(before);
    expect(lease?.leaseExpiresAt).toBeGreaterThanOrEqual(before + durationMs);
    expect(store.findNode(SPACE, hash)?.leaseExpiresAt).toBeGreaterThanOrEqual(lease?.leaseExpiresAt ?? 0);
  });
  await Promise.all(renewed);
  expect(await store.renewReadyLease(other, hashAt(0), 60_000)).toBeUndefined();
  expect(await store.renewReadyLease(SPACE, hashAt(NODES), 60_000)).toBeUndefined();
  expect(store.readCounters(SPACE).leasedNodeCount).toBe(NODES);
});

test('who was answered together goes on together, as soon as all have asked again', async () => {
  // Every commit seems to take long, and no timer fires: a wait for a timer never ends.
  let now = 0;
  let commits = 0;
  let waiting: Promise<unknown> | undefined;
  const clock = spyOn(performance, 'now').mockImplementation(() => now);
  const timers = spyOn(globalThis, 'setTimeout').mockImplementation((() => 0) as never);
  const onCommitted = (): void => {
    commits += 1;
    now += 100;
    if (commits === 2) waiting = renew(2);
  };
  const lastCommit = new BigInt64Array(new SharedArrayBuffer(8));
  const writer = new ThreadRowWriter({ path, isShared: true, lastCommit }, { onCommitted, onFatal });
  const renew = (index: number) => writer.renewReady(SPACE, hashAt(index), 60_000);
  try {
    await Promise.all([renew(0), renew(1)]);
    for (const besides of [() => undefined, () => waiting]) {
      const first = renew(0);
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      for (const lease of await Promise.all([first, renew(1)])) expect(lease).toBeDefined();
      await besides();
    }
    expect(commits).toBe(3);
  } finally {
    clock.mockRestore();
    timers.mockRestore();
    await writer.drain();
    await writer.close();
  }
});

test('a renewal that cannot be made harms none of those that go with it', async () => {
  const hashes = Array.from({ length: NODES }, (_, index) => hashAt(index));
  for (const hash of hashes) expect(store.findNode(SPACE, hash)?.state).toBe('ready');
  const disk = new Database(path);
  disk.run('UPDATE nodes SET state = 9 WHERE hash = ?1', [hexToBytes(hashAt(1))]);
  disk.run('DELETE FROM nodes WHERE hash = ?1', [hexToBytes(hashAt(2))]);
  disk.close();
  const outcomes = await Promise.allSettled(hashes.map((hash) => store.renewReadyLease(SPACE, hash, 60_000)));
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  const [first, damaged, absent, last] = outcomes as [
    PromiseFulfilledResult<unknown>,
    PromiseRejectedResult,
    PromiseFulfilledResult<unknown>,
    PromiseFulfilledResult<unknown>,
  ];
  expect(damaged.reason).toBeInstanceOf(StoreUnavailable);
  expect(absent.value).toBeUndefined();
  for (const [at, { value }] of [[0, first] as const, [3, last] as const])
    expect(store.findNode(SPACE, hashAt(at))).toMatchObject(value as object);
  expect(fatal).toEqual([]);
});

test('a rule that refuses throws its own error', async () => {
  await lease(10, 60_000, '01'.repeat(10));
  await lease(11, 60_000, '02'.repeat(10));
  const refused = await errorOf(lease(12, 60_000, '03'.repeat(10)));
  expect(refused).toBeInstanceOf(ApiError);
  expect(refused).toMatchObject({ code: 'CAS_UPLOAD_LIMIT', status: 429, retryAfterSeconds: 5 });
  const nameless = errorOf(store.transact(SPACE, (tx) => tx.now));
  expect(String(await nameless)).toContain('only transactions with a name');
});

test('closing answers every request before it, takes no more, and leaves nothing in the log', async () => {
  const asked = Array.from({ length: NODES }, (_, index) => lease(index));
  const closing = store.close();
  expect(await errorOf(lease(0))).toBeInstanceOf(StoreUnavailable);
  for (const decision of await Promise.all(asked)) expect(decision.kind).toBe('ready');
  await closing;
  expect(existsSync(`${path}-wal`)).toBe(false);
  store = new SqliteMetadataStore({ path, clock, onFatal, isShared: false, hasThread: true });
});

test('the log of a large write is emptied while the store stays open', async () => {
  const logBytes = (): number => statSync(`${path}-wal`).size;
  await store.insertStoreValue('large', 'x'.repeat(2_000_000));
  await until(() => logBytes() === 0);
  expect(await store.insertStoreValue('large', 'y')).toHaveLength(2_000_000);
  expect(fatal).toEqual([]);
});

test('the log of a large write is emptied when the store may rest', async () => {
  const emptying = spyOn(WriteAheadLog.prototype, 'emptyNow');
  // No other process has it open, because a reader would block the truncation.
  const own = join(folder.path, 'own.db');
  const local = new SqliteMetadataStore({ path: own, clock, onFatal, isShared: false });
  try {
    await local.insertStoreValue('large', 'x'.repeat(2_000_000));
    local.rest();
    await until(() => emptying.mock.calls.length === 1);
    expect(statSync(`${own}-wal`).size).toBe(0);
    // Queued writes come first.
    const written = local.insertStoreValue('more', 'y');
    local.rest();
    await written;
    await nextTurn();
    expect(emptying).toHaveBeenCalledTimes(1);
  } finally {
    emptying.mockRestore();
    await local.close();
  }
  local.rest();
  store.rest();
  await store.insertStoreValue('large again', 'x'.repeat(2_000_000));
  expect(fatal).toEqual([]);
});

test('a thread that dies ends the process, and every waiting caller gets an error', async () => {
  const settings = { path: join(folder.path, 'missing', 'holdfast.db'), isShared: false };
  const lastCommit = new BigInt64Array(new SharedArrayBuffer(8));
  const writer = new ThreadRowWriter({ ...settings, lastCommit }, { onCommitted: () => undefined, onFatal });
  const waiting = errorOf(writer.removeStoreValue('name'));
  await until(() => fatal.length === 1);
  expect(await waiting).toBe(fatal[0]);
  expect(await errorOf(writer.removeStoreValue('name'))).toBe(fatal[0]);
  await writer.drain();
});

test.each([
  ['SQLITE_IOERR_FSYNC', 1],
  ['SQLITE_IOERR', 1],
  ['SQLITE_FULL', 0],
])('a checkpoint that fails with %s', async (code, fatals) => {
  const lastCommit = new BigInt64Array(1);
  const writer = new LocalRowWriter({ path, isShared: true, lastCommit }, clock, {
    onCommitted: () => undefined,
    onFatal,
  });
  const failing = spyOn(WriteAheadLog.prototype, 'copyBackWhenLong').mockImplementation(() => {
    throw Object.assign(new Error('injected'), { code });
  });
  try {
    await writer.insertStoreValue('name', 'value');
    await until(() => failing.mock.calls.length > 0);
    expect(fatal).toHaveLength(fatals);
    expect((await errorOf(writer.removeStoreValue('name'))) === undefined).toBe(fatals === 0);
  } finally {
    failing.mockRestore();
    await writer.drain();
    await writer.close();
  }
});

test('the thread goes by the time origin that it is given', async () => {
  const timeOrigin = takeTimeOrigin() + 172_800_000;
  const steady = new SteadyClock(timeOrigin);
  await store.close();
  store = new SqliteMetadataStore({
    path,
    clock: steady,
    timeOrigin,
    onFatal,
    isShared: false,
    hasThread: true,
  });
  const before = store.readClock();
  const decision = await lease(0, 60_000);
  if (decision.kind !== 'ready') throw new Error(decision.kind);
  expect(decision.leaseExpiresAt).toBeGreaterThanOrEqual(before + 60_000);
  expect(decision.leaseExpiresAt).toBeLessThanOrEqual(store.readClock() + 60_000);
});
