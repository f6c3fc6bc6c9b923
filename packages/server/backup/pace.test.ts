/** The pace of a backup: full speed while the system is idle, slower with more load. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFolderDatabases } from '../engine/sqlite/folder-databases.ts';
import { watchOthers } from './make-backup.ts';
import { planFilledMs } from './pace.ts';

const folder = mkdtempSync(join(tmpdir(), 'pace-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const LIMITS = { quietBytesPerSecond: 10_000, crowdedBytesPerSecond: 1_000, crowdedShare: 0.1 };

test('a piece takes longer the more others work, and no longer than in a crowd', () => {
  const plan = (othersMs: number, busyMs = 1, bytes = 1_000): number =>
    planFilledMs(LIMITS, { busyMs, bytes, othersMs });
  expect(plan(0)).toBe(100);
  expect(plan(50)).toBe(150);
  expect(plan(899)).toBe(999);
  expect(plan(1e9)).toBe(1_000);
  // A crowd leaves a share of the time regardless of bytes; time on a hanging disk counts only up to a limit.
  expect(plan(1e9, 50, 0)).toBe(500);
  expect(plan(1e9, 5_000, 0)).toBe(1_000);
  expect(plan(0, 50, 0)).toBe(0);
});

test('every commit of others earns a rest, once', () => {
  const database = new Database(join(folder, 'holdfast.db'));
  database.run('PRAGMA journal_mode = WAL');
  database.run('PRAGMA synchronous = OFF');
  database.run('CREATE TABLE rows (id INTEGER PRIMARY KEY)');
  const [rows] = findFolderDatabases(folder);
  const countCommits = rows?.watchCommits() ?? (() => 0);
  const before = countCommits();
  let counted = before;
  const readRestMs = watchOthers(() => counted);
  const atRestMs = readRestMs();
  for (let id = 0; id < 1_000; id += 1) database.run(`INSERT INTO rows VALUES (${id})`);
  database.run('PRAGMA wal_checkpoint(TRUNCATE)');
  database.run('INSERT INTO rows VALUES (1000)');
  counted = countCommits();
  expect((counted - before) >>> 0).toBe(1_001);
  expect(readRestMs()).toBeGreaterThanOrEqual(1_001 * 20);
  // The counter wraps to 0 after 32 bits.
  counted = 0xffff_ffff;
  readRestMs();
  counted = 1;
  const wrappedMs = readRestMs();
  expect(wrappedMs).toBeGreaterThanOrEqual(2 * 20);
  expect(wrappedMs).toBeLessThan(1_001 * 20);
  expect(atRestMs).toBeGreaterThanOrEqual(0);
  database.close();
});
