/** A database is copied in passes during writes: the copy has the state at the moment of the pin. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HeldFolder } from '../deployment/held-folder.ts';
import { pinDatabase, SqlitePageSnapshot, withPin } from '../engine/sqlite/page-snapshot.ts';
import { DatabaseCopies } from './copy-database.ts';
import { makeManifest } from './manifest.ts';
import { Pace } from './pace.ts';
import { writeDatabases } from './read-backup.ts';
import { Repository } from './repository.ts';

const folder = mkdtempSync(join(tmpdir(), 'copy-database-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ROWS = 2000;
const UNBOUND = {
  quietBytesPerSecond: Number.MAX_SAFE_INTEGER,
  crowdedBytesPerSecond: Number.MAX_SAFE_INTEGER,
  crowdedShare: 1,
};

test('the copy holds the pages of one moment, though pages change between its passes', async () => {
  const path = join(folder, 'holdfast.db');
  const database = new Database(path);
  database.run('PRAGMA journal_mode = WAL');
  database.run('CREATE TABLE rows (id INTEGER PRIMARY KEY, written INTEGER, bytes BLOB)');
  const write = (round: number, from: number, to: number): void => {
    using insert = database.prepare('INSERT OR REPLACE INTO rows VALUES (?, ?, randomblob(2000))');
    database.transaction(() => {
      for (let id = from; id < to; id += 1) insert.run(id, round);
    })();
  };
  const restored = join(folder, 'restored');
  mkdirSync(restored);
  mkdirSync(join(folder, 'backup'));
  const repository = new Repository(HeldFolder.hold(join(folder, 'backup')));
  repository.makeFolders(['holdfast.db']);
  const pace = new Pace(UNBOUND, 0, () => 0);
  const seed = '0123456789abcdef';
  const copies = new DatabaseCopies('holdfast.db', {
    repository,
    sequence: 1,
    seed,
    former: undefined,
    pace,
  });
  const glance = (): SqlitePageSnapshot => withPin(path, (pin) => new SqlitePageSnapshot(path, pin));
  write(1, 0, ROWS);
  const seen = glance();
  // The first pass reads pages that change meanwhile, and a log that restarts.
  write(2, 0, ROWS / 2);
  database.run('PRAGMA wal_checkpoint(RESTART)');
  write(3, 10, 20);
  const first = await copies.pass(seen);
  expect(first).toBeGreaterThan(ROWS * 2000);
  write(4, 500, 520);
  expect(await copies.pass(glance())).toBeLessThan(first / 2);
  write(5, ROWS, ROWS + 10);
  const pinned = new SqlitePageSnapshot(path, pinDatabase(path));
  const expected = database.query('SELECT id, written, hex(bytes) FROM rows').all();
  write(6, 0, ROWS * 2);
  const databases = [await copies.finish(pinned)];
  const manifest = makeManifest({
    sequence: 1,
    createdAt: 0,
    nodes: 0,
    bytes: 0,
    seed,
    databases,
    objects: null,
  });
  writeDatabases(repository, manifest, HeldFolder.hold(restored), (what) => {
    throw new Error(what);
  });
  const copy = new Database(join(restored, 'holdfast.db'));
  expect(copy.query('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
  expect(copy.query('SELECT id, written, hex(bytes) FROM rows').all()).toEqual(expected);
  copy.close();
  database.close();
});
