/** Failures of the database: one that surely left nothing refuses the batch, and one of unknown outcome ends the process. */
import type { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasWrittenNothing, StoreUnavailable } from '../../../core/store-failure.ts';
import { hashAt, ManualClock, NOW, readyNode, SPACE } from '../../test/samples.ts';
import { openWriter } from '../database.ts';
import { migrate } from '../migrations.ts';
import { NodeCache } from '../node-cache.ts';
import { SpaceDirectory } from '../space-directory.ts';
import { SqliteSpaceTransaction } from '../space-transaction.ts';
import { finalize, prepareAll, type Statements } from '../statements.ts';
import { GroupCommit } from './group-commit.ts';
import { packError, unpackError } from './writer-messages.ts';

let folder: string;
let database: Database;
let sql: Statements;
let commits: GroupCommit;
let fatal: Error[];
/** statement → the SQLite codes its next runs fail with; empty: that run does not fail */
const failures = new Map<keyof Statements, string[]>();

/** The statement itself, unless a failure is due; `isHalfDone`: one that comes when its work has been done. */
function failing(name: keyof Statements, isHalfDone = false): Statements[keyof Statements] {
  return new Proxy(sql[name], {
    get(target, property) {
      const value = Reflect.get(target, property, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const code = property === 'run' ? failures.get(name)?.shift() : undefined;
        if (code === undefined || code === '') return value.apply(target, args);
        if (isHalfDone) value.apply(target, args);
        throw Object.assign(new Error(`${code}: injected`), { code });
      };
    },
  });
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-failure-'));
  database = openWriter(join(folder, 'holdfast.db'), undefined);
  migrate(database, folder);
  sql = prepareAll(database);
  fatal = [];
  failures.clear();
  commits = openCommits();
});
afterEach(async () => {
  await commits.close();
  finalize(sql);
  database.close(true);
  await rm(folder, { recursive: true });
});

function openCommits(limits: { busyMsMax?: number } = {}): GroupCommit {
  return new GroupCommit({
    database,
    sql: {
      ...sql,
      begin: failing('begin'),
      commit: failing('commit'),
      insertNode: failing('insertNode'),
      updateNodeLease: failing('updateNodeLease', true),
    },
    spaces: new SpaceDirectory(),
    cache: new NodeCache(),
    clock: new ManualClock(),
    onFatal: (error) => fatal.push(error),
    ...limits,
  });
}

function insert(index: number): Promise<void> {
  return commits.submit((scope) => {
    new SqliteSpaceTransaction(scope, SPACE).insert(
      'node',
      readyNode(hashAt(index), { leaseExpiresAt: NOW + 1 }),
    );
  });
}

const isThere = (index: number): Promise<boolean> =>
  commits.submit((scope) => new SqliteSpaceTransaction(scope, SPACE).findNode(hashAt(index)) !== undefined);

function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error) => error,
  );
}

test.each(['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_NOMEM'])(
  '%s at the commit: the batch is refused and gone',
  async (code) => {
    await insert(1);
    failures.set('commit', [code]);
    const refused = await Promise.all([errorOf(insert(2)), errorOf(insert(3))]);
    for (const error of refused) expect(error).toBeInstanceOf(StoreUnavailable);
    expect(refused.map(hasWrittenNothing)).toEqual([true, true]);
    expect(database.inTransaction).toBe(false);
    expect([await isThere(1), await isThere(2), await isThere(3)]).toEqual([true, false, false]);
    await insert(2);
    expect(await isThere(2)).toBe(true);
    expect(fatal).toEqual([]);
  },
);

test.each(['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR', 'SQLITE_CORRUPT'])(
  '%s at the commit: the outcome is unknown, so it is fatal',
  async (code) => {
    failures.set('commit', [code]);
    const unknown = await errorOf(insert(1));
    expect(unknown).toBeDefined();
    expect(hasWrittenNothing(unknown)).toBe(false);
    expect(hasWrittenNothing(unpackError(packError(unknown)))).toBe(false);
    expect(fatal).toHaveLength(1);
    expect(await errorOf(insert(2))).toBe(fatal[0]);
  },
);

test('a statement that fails refuses its body and no other', async () => {
  failures.set('insertNode', ['SQLITE_IOERR_READ']);
  const [failed, other] = await Promise.all([errorOf(insert(1)), errorOf(insert(2))]);
  expect(failed).toBeInstanceOf(StoreUnavailable);
  expect(other).toBeUndefined();
  expect([await isThere(1), await isThere(2)]).toEqual([false, true]);
  expect(fatal).toEqual([]);
});

/** Moves the lease of a node as a renewal does, then does `more` in the same body. */
function renew<T>(
  index: number,
  leaseExpiresAt: number,
  more: (tx: SqliteSpaceTransaction) => T,
): Promise<T> {
  return commits.submit((scope) => {
    const tx = new SqliteSpaceTransaction(scope, SPACE);
    const row = tx.findNode(hashAt(index));
    if (row === undefined) throw new Error(`node ${index} has no row`);
    tx.update('node', row, { ...row, leaseExpiresAt });
    return more(tx);
  }) as Promise<T>;
}

const expiriesOnDisk = (): number[] =>
  database
    .query<{ hash: Uint8Array; expiry: number }, []>('SELECT hash, lease_expires_at AS expiry FROM nodes')
    .all()
    .sort((a, b) => Buffer.compare(a.hash, b.hash))
    .map(({ expiry }) => expiry);

test('a renewal whose statement fails half way is refused alone, and nothing of it stays', async () => {
  const indices = [1, 2, 3].sort((a, b) => hashAt(a).localeCompare(hashAt(b)));
  for (const index of indices) await insert(index);
  failures.set('updateNodeLease', ['', 'SQLITE_IOERR_WRITE']);
  const outcomes = await Promise.all(
    indices.map((index) => errorOf(renew(index, NOW + 10, () => undefined))),
  );
  expect(outcomes.map((error) => error instanceof StoreUnavailable)).toEqual([false, true, false]);
  expect([outcomes[0], outcomes[2]]).toEqual([undefined, undefined]);
  expect(expiriesOnDisk()).toEqual([NOW + 10, NOW + 1, NOW + 10]);
  const seen = await renew(indices[1] as number, NOW + 20, (tx) => tx.findNode(hashAt(indices[1] as number)));
  expect(seen?.leaseExpiresAt).toBe(NOW + 20);
  expect(expiriesOnDisk()).toEqual([NOW + 10, NOW + 20, NOW + 10]);
  expect(fatal).toEqual([]);
});

test('a renewal that is only a part of its body is written before the next verb, and shares its fate', async () => {
  await insert(1);
  await renew(1, NOW, () => undefined);
  expect(await renew(1, NOW + 50, (tx) => tx.due('candidates', undefined, 10))).toEqual([]);
  expect(await renew(1, NOW, (tx) => tx.due('candidates', undefined, 10).length)).toBe(1);
  const broken = renew(1, NOW + 70, (tx) => {
    tx.insert('node', readyNode(hashAt(2)));
    throw new Error('a body that fails');
  });
  const beside = insert(3);
  expect(String(await errorOf(broken))).toContain('a body that fails');
  await beside;
  expect([await isThere(2), await isThere(3)]).toEqual([false, true]);
  expect(expiriesOnDisk().toSorted()).toEqual([NOW, NOW + 1]);
  const thrownFirst = renew(1, NOW + 90, () => {
    throw new Error('nothing was written yet');
  });
  expect(String(await errorOf(thrownFirst))).toContain('nothing was written yet');
  expect(expiriesOnDisk().toSorted()).toEqual([NOW, NOW + 1]);
  expect(fatal).toEqual([]);
});

test('a write is refused while another process keeps the lock too long, and accepted once it is free', async () => {
  failures.set(
    'begin',
    Array.from({ length: 10_000 }, () => 'SQLITE_BUSY'),
  );
  commits = openCommits({ busyMsMax: 20 });
  expect(await errorOf(insert(1))).toBeInstanceOf(StoreUnavailable);
  // As long as in service: the machine may be busy between two looks.
  commits = openCommits();
  failures.set('begin', ['SQLITE_BUSY', 'SQLITE_BUSY_RECOVERY']);
  await insert(1);
  expect(await isThere(1)).toBe(true);
});

test('a body that writes first and fails is undone alone, with every page it has changed', async () => {
  await insert(1);
  const writeAndFail = (index: number) =>
    renew(1, NOW + 10 * index, (tx) => {
      tx.insert('node', readyNode(hashAt(index), { leaseExpiresAt: NOW + 1 }));
      throw new Error(`body ${index} fails`);
    });
  const before = isThere(1);
  const failed = [2, 3].map((index) => errorOf(writeAndFail(index)));
  const after = insert(4);
  expect(await before).toBe(true);
  expect((await Promise.all(failed)).map(String)).toEqual(['Error: body 2 fails', 'Error: body 3 fails']);
  await after;
  expect([await isThere(2), await isThere(3), await isThere(4)]).toEqual([false, false, true]);
  expect(expiriesOnDisk()).toEqual([NOW + 1, NOW + 1]);
  expect(fatal).toEqual([]);
});

test('a transaction that cannot begin is refused', async () => {
  failures.set('begin', ['SQLITE_IOERR']);
  expect(await errorOf(insert(1))).toBeInstanceOf(StoreUnavailable);
  await insert(1);
  expect(fatal).toEqual([]);
});
