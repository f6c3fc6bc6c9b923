/** When the database itself fails: what surely left nothing is a refusal, what may have left something ends the process. */
import type { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreUnavailable } from '../../core/ports.ts';
import { hashAt, ManualClock, NOW, readyNode, SPACE } from '../contract/samples.ts';
import { openWriter } from './database.ts';
import { GroupCommit } from './group-commit.ts';
import { migrate } from './migrations.ts';
import { NodeCache } from './node-cache.ts';
import { SpaceDirectory } from './space-directory.ts';
import { SqliteSpaceTransaction } from './space-transaction.ts';
import { finalize, prepareAll, type Statements } from './statements.ts';

let folder: string;
let database: Database;
let sql: Statements;
let commits: GroupCommit;
let fatal: Error[];
/** statement → the SQLite codes its next runs fail with */
const failures = new Map<keyof Statements, string[]>();

/** The statement itself, unless a failure is due. */
function failing(name: keyof Statements): Statements[keyof Statements] {
  return new Proxy(sql[name], {
    get(target, property) {
      const value = Reflect.get(target, property, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const code = property === 'run' ? failures.get(name)?.shift() : undefined;
        if (code !== undefined) throw Object.assign(new Error(`${code}: injected`), { code });
        return value.apply(target, args);
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
  commits = new GroupCommit({
    database,
    sql: { ...sql, begin: failing('begin'), commit: failing('commit'), insertNode: failing('insertNode') },
    spaces: new SpaceDirectory(),
    cache: new NodeCache(),
    clock: new ManualClock(),
    onFatal: (error) => fatal.push(error),
    busyMsMax: 20,
  });
});
afterEach(async () => {
  await commits.close();
  finalize(sql);
  database.close(true);
  await rm(folder, { recursive: true });
});

function insert(index: number): Promise<void> {
  return commits.submit((scope) => {
    new SqliteSpaceTransaction(scope, SPACE).insertNode(
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
    expect(await errorOf(insert(1))).toBeDefined();
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

test('another process that keeps the lock too long: refused, and taken once the lock is free', async () => {
  failures.set(
    'begin',
    Array.from({ length: 10_000 }, () => 'SQLITE_BUSY'),
  );
  expect(await errorOf(insert(1))).toBeInstanceOf(StoreUnavailable);
  failures.set('begin', ['SQLITE_BUSY', 'SQLITE_BUSY_RECOVERY']);
  await insert(1);
  expect(await isThere(1)).toBe(true);
});

test('a transaction that cannot begin is refused', async () => {
  failures.set('begin', ['SQLITE_IOERR']);
  expect(await errorOf(insert(1))).toBeInstanceOf(StoreUnavailable);
  await insert(1);
  expect(fatal).toEqual([]);
});
