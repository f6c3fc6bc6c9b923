import { afterEach, beforeEach, expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { openReader, openWriter } from './database.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

let folder: ReturnType<typeof makeTempFolder>;
let path: string;
let writer: ReturnType<typeof openWriter>;

beforeEach(() => {
  folder = makeTempFolder('write-ahead-log');
  path = join(folder.path, 'test.db');
  writer = openWriter(path, undefined);
  writer.run('CREATE TABLE facts (id INTEGER PRIMARY KEY) STRICT');
});

afterEach(() => {
  writer.close(true);
  folder.remove();
});

const logBytes = (): number => statSync(`${path}-wal`).size;

test('the log is emptied at the second look without a write between', () => {
  const log = new WriteAheadLog(writer);
  log.emptyWhenIdle();
  writer.run('INSERT INTO facts DEFAULT VALUES');
  log.emptyWhenIdle();
  expect(logBytes()).toBeGreaterThan(0);
  log.emptyWhenIdle();
  expect(logBytes()).toBe(0);
  writer.run('INSERT INTO facts DEFAULT VALUES');
  log.emptyWhenIdle();
  expect(logBytes()).toBeGreaterThan(0);
});

test('a log that takes room is emptied soon after the last write, a short one is left', () => {
  const log = new WriteAheadLog(writer);
  log.emptySoon();
  expect(log.emptySoon()).toBe(false);
  expect(logBytes()).toBeGreaterThan(0);
  writer.run('CREATE TABLE pages (bytes BLOB) STRICT');
  writer.run('INSERT INTO pages VALUES (zeroblob(2000000))');
  expect(log.emptySoon()).toBe(true);
  writer.run('INSERT INTO facts DEFAULT VALUES');
  expect(log.emptySoon()).toBe(true);
  expect(logBytes()).toBeGreaterThan(2_000_000);
  expect(log.emptySoon()).toBe(false);
  expect(logBytes()).toBe(0);
});

test('a log that takes room can be emptied at once, a short one is left, and not over and over', () => {
  const log = new WriteAheadLog(writer);
  /** Emptying takes 10 ms by this clock. */
  const emptyAt = (at: number) => {
    const times = [at, at + 10];
    log.emptyNow(() => times.shift() ?? Number.NaN);
  };
  emptyAt(0);
  expect(logBytes()).toBeGreaterThan(0);
  writer.run('CREATE TABLE pages (bytes BLOB) STRICT');
  const write = () => writer.run('INSERT INTO pages VALUES (zeroblob(2000000))');
  write();
  emptyAt(1);
  expect(logBytes()).toBe(0);
  expect([log.emptySoon(), log.emptySoon()]).toEqual([true, false]);
  write();
  // It ended at 11, and passes for four times as long as it took.
  emptyAt(50);
  expect(logBytes()).toBeGreaterThan(2_000_000);
  emptyAt(51);
  expect(logBytes()).toBe(0);
});

test('a reader in the way leaves a long log to a later look', () => {
  writer.run('PRAGMA busy_timeout = 1');
  writer.run('CREATE TABLE pages (bytes BLOB) STRICT');
  const reader = openReader(path, 1024 * 1024);
  const count = reader.query<{ count: number }, []>('SELECT count(*) AS count FROM facts');
  reader.run('BEGIN');
  count.get();
  writer.run('INSERT INTO pages VALUES (zeroblob(2000000))');
  const log = new WriteAheadLog(writer);
  expect(log.emptySoon()).toBe(true);
  expect(log.emptySoon()).toBe(false);
  expect(logBytes()).toBeGreaterThan(2_000_000);
  reader.run('COMMIT');
  log.emptyWhenIdle();
  expect(logBytes()).toBe(0);
  count.finalize();
  reader.close(true);
});

test('writes of another connection count as writes', () => {
  const other = openWriter(path, undefined);
  const log = new WriteAheadLog(writer);
  log.emptyWhenIdle();
  for (let round = 0; round < 3; round += 1) {
    other.run('INSERT INTO facts DEFAULT VALUES');
    log.emptyWhenIdle();
    expect(logBytes()).toBeGreaterThan(0);
  }
  log.emptyWhenIdle();
  expect(logBytes()).toBe(0);
  other.close(true);
});

test('a reader delays the emptying of the log, and nothing is lost', () => {
  writer.run('PRAGMA busy_timeout = 1');
  const reader = openReader(path, 1024 * 1024);
  const count = reader.query<{ count: number }, []>('SELECT count(*) AS count FROM facts');
  const log = new WriteAheadLog(writer);
  reader.run('BEGIN');
  expect(count.get()?.count).toBe(0);
  writer.run('INSERT INTO facts DEFAULT VALUES');
  log.emptyWhenIdle();
  log.emptyWhenIdle();
  expect(count.get()?.count).toBe(0);
  expect(logBytes()).toBeGreaterThan(0);
  reader.run('COMMIT');
  log.emptyWhenIdle();
  expect(logBytes()).toBe(0);
  expect(count.get()?.count).toBe(1);
  count.finalize();
  reader.close(true);
});

test('a long log is copied into the database, a short one is left', () => {
  const log = new WriteAheadLog(writer);
  const look = () =>
    writer.query<{ log: number; checkpointed: number }, []>('PRAGMA wal_checkpoint(NOOP)').get();
  log.copyBackWhenLong();
  expect(look()?.checkpointed).toBe(0);
  writer.run('CREATE TABLE pages (bytes BLOB) STRICT');
  writer.run('INSERT INTO pages VALUES (zeroblob(20000000))');
  expect(look()?.checkpointed).toBe(0);
  log.copyBackWhenLong();
  expect(look()?.log).toBeGreaterThan(4000);
  expect(look()?.checkpointed).toBe(look()?.log);
});
