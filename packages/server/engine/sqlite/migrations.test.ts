/** This Holdfast reads what an older one wrote. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EngineRefused } from '../refused.ts';
import { hashAt, ManualClock, NOW, newGeneration, SPACE } from '../test/samples.ts';
import { SqliteMetadataStore } from './metadata-store.ts';
import initial from './migrations/0001-initial.sql' with { type: 'text' };
import { assertSchema, migrate } from './migrations.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-migrations-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('of schema 1, claims become leftovers, discards are due, and content has no good URL and no pack', async () => {
  const path = join(folder, 'holdfast.db');
  const [claimed, discarded] = [newGeneration(), newGeneration()];
  const database = new Database(path);
  migrate(database, path, [{ sql: initial, minCompatible: 1 }]);
  database.run(
    "INSERT INTO spaces (id, app_id, space_id, node_count, not_ready_node_count) VALUES (1, 'app', 'space', 1, 1)",
  );
  database.run(
    `INSERT INTO nodes VALUES (1, x'${hashAt(1)}', 3, 100, 134, 'text/plain', x'', x'${claimed}', 0, 0, 0, 0, 0, 0, 0, 0)`,
  );
  database.run(`INSERT INTO contents VALUES (1, x'${claimed}', 1, 134, x'01', NULL)`);
  database.run(`INSERT INTO discards VALUES (x'${discarded}', 1)`);
  database.close();

  const fail = (error: Error): never => {
    throw error;
  };
  const store = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal: fail, isShared: false });
  const cutoffs = { now: NOW, abandonedAt: 0, historyAt: 0 };
  expect(store.page('spacesToSweep', { cutoffs, limit: 10 }).spaces).toEqual([SPACE]);
  await store.transact(SPACE, async (tx) => {
    expect(await tx.due('claimed', NOW, 10)).toMatchObject([
      { hash: hashAt(1), claimHeldUntil: 0, storage: 'object', storedSize: 134 },
    ]);
    expect(await tx.due('discards', NOW, 10)).toEqual([{ generation: discarded, dueAt: 0, urlExpiresAt: 0 }]);
    const content = { canonicalSize: 134, urlExpiresAt: 0, packed: undefined };
    expect(await tx.findContent(claimed)).toMatchObject(content);
  });
  await store.close();
});

test('an older build goes on with a database of a newer one that says so, and refuses any other', () => {
  using database = new Database(':memory:');
  const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  const two = { sql: 'CREATE TABLE two (a)', minCompatible: 1 };
  const three = { sql: 'DROP TABLE one', minCompatible: 3 };
  migrate(database, 'x', [one, two]);
  migrate(database, 'x', [one]);
  const version = () => database.query('PRAGMA user_version').values().flat();
  expect(version()).toEqual([2]);
  migrate(database, 'x', [one, two, three]);
  expect(() => migrate(database, 'x', [one, two])).toThrow(EngineRefused);
  // A later migration does not mend what an earlier one broke.
  migrate(database, 'x', [one, two, three, { sql: 'CREATE TABLE four (a)', minCompatible: 1 }]);
  expect(() => migrate(database, 'x', [one, two])).toThrow(/schema version 4, this build knows 2/);
  migrate(database, 'x', [one, two, three]);
  expect(version()).toEqual([4]);
});

test('a database of a build that recorded only its version is refused by older builds', () => {
  using database = new Database(':memory:');
  database.run('PRAGMA user_version = 2');
  const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  expect(() => migrate(database, 'x', [one])).toThrow(EngineRefused);
});

const SAID = {
  version: 'PRAGMA user_version',
  'oldest compatible version': 'SELECT min_compatible_version FROM holdfast_schema',
  seal: 'PRAGMA application_id',
};
const SET: Readonly<Record<keyof typeof SAID, (value: number) => string>> = {
  version: (value) => `PRAGMA user_version = ${value}`,
  'oldest compatible version': (value) => `UPDATE holdfast_schema SET min_compatible_version = ${value}`,
  seal: (value) => `PRAGMA application_id = ${value}`,
};

const readSaid = (database: Database, what: keyof typeof SAID): number =>
  database.query(SAID[what]).values().flat()[0] as number;

test.each(Object.keys(SAID) as (keyof typeof SAID)[])('a wrong bit in the %s is put right', (what) => {
  const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  const two = { sql: 'UPDATE one SET a = a + 1', minCompatible: 2 };
  using database = new Database(':memory:');
  migrate(database, 'x', [one, two]);
  database.run('INSERT INTO one VALUES (0)');
  const right = readSaid(database, what);
  for (let bit = 0; bit < 32; bit += 1) {
    database.run(SET[what](what === 'seal' ? right ^ (1 << bit) : (right ^ (1 << bit)) | 0));
    migrate(database, 'x', [one, two]);
    expect(readSaid(database, what)).toBe(right);
    expect(database.query('SELECT a FROM one').values()).toEqual([[0]]);
  }
});

test.each(Object.keys(SAID) as (keyof typeof SAID)[])(
  'no wrong bit in the %s lets an older build use, or migrate, a newer schema',
  (what) => {
    const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
    const two = { sql: 'CREATE TABLE two (a)', minCompatible: 1 };
    const three = { sql: 'UPDATE one SET a = a + 1', minCompatible: 3 };
    using database = new Database(':memory:');
    migrate(database, 'x', [one, two, three]);
    const right = readSaid(database, what);
    for (let bit = 0; bit < 32; bit += 1) {
      const wrong = right ^ (1 << bit);
      database.run(SET[what](wrong));
      for (const older of [[one], [one, two]])
        expect(() => migrate(database, 'x', older)).toThrow(/x has schema version 3, this build knows/);
      expect(readSaid(database, what)).toBe(wrong);
    }
  },
);

test('a version that is wrong as a whole is put right if it is of this build, and else refused', () => {
  const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  const two = { sql: 'ALTER TABLE one ADD COLUMN b', minCompatible: 2 };
  using database = new Database(':memory:');
  migrate(database, 'x', [one]);
  for (const wrong of [0, 5, -1]) {
    database.run(`PRAGMA user_version = ${wrong}`);
    database.run(`UPDATE holdfast_schema SET min_compatible_version = ${wrong}`);
    migrate(database, 'x', [one]);
    expect(readSaid(database, 'version')).toBe(1);
  }
  migrate(database, 'x', [one, two]);
  database.run('PRAGMA user_version = 7');
  expect(() => migrate(database, 'x', [one])).toThrow(/x has a damaged schema version.*restore a backup/);
  expect(readSaid(database, 'version')).toBe(7);
});

test('a version that is too large for what is there, of a build that sealed none, runs the migrations that are missing', () => {
  using database = new Database(':memory:');
  const one = { sql: 'CREATE TABLE one (a)', minCompatible: 1 };
  const two = { sql: 'ALTER TABLE one ADD COLUMN b', minCompatible: 2 };
  migrate(database, 'x', [one]);
  database.run('PRAGMA user_version = 5');
  database.run('PRAGMA application_id = 0');
  migrate(database, 'x', [one, two]);
  expect(database.query('PRAGMA user_version').values()).toEqual([[2]]);
  expect(database.query('SELECT b FROM one').all()).toEqual([]);
});

test('a wrong bit in the version of an older build neither repeats a migration nor leaves one out', () => {
  const migrations = ['CREATE TABLE one (a)', 'CREATE INDEX one_a ON one (a)', 'CREATE TABLE two (a)']
    .concat('ALTER TABLE two ADD COLUMN b', 'CREATE TABLE three (a)')
    .map((sql) => ({ sql, minCompatible: 1 }));
  for (let count = 1; count <= migrations.length; count += 1) {
    for (let bit = 0; bit < 32; bit += 1) {
      using database = new Database(':memory:');
      migrate(database, 'x', migrations.slice(0, count));
      database.run(`PRAGMA user_version = ${(count ^ (1 << bit)) | 0}`);
      // Half of them by a build that sealed none.
      if (bit % 2 === 0) database.run('PRAGMA application_id = 0');
      migrate(database, 'x', migrations);
      const made = database.query('SELECT name FROM sqlite_master ORDER BY name').values().flat();
      expect(made).toEqual(['holdfast_schema', 'one', 'one_a', 'three', 'two']);
      expect(database.query('SELECT b FROM two').all()).toEqual([]);
    }
  }
});

test('a schema that is not the one of this build is damage, whatever is wrong in it', () => {
  const change = (...sql: string[]): (() => void) => {
    const database = new Database(':memory:');
    migrate(database, 'x');
    for (const each of sql) database.run(each);
    return () => assertSchema(database);
  };
  expect(change()).not.toThrow();
  expect(change('ALTER TABLE nodes RENAME root_ref_count TO roov_ref_count')).toThrow('the schema of nodes');
  expect(change('DROP INDEX packs_dead')).toThrow('the schema of packs_dead');
  // ANALYZE, and tools that copy databases, add tables of their own.
  expect(change('ANALYZE', 'CREATE TABLE _other_seq (a)')).not.toThrow();
  // A renamed column may have quotes.
  const renamed = change('ALTER TABLE nodes RENAME storage TO x', 'ALTER TABLE nodes RENAME x TO "storage"');
  expect(renamed).not.toThrow();
  // The schema of another version is not known.
  expect(change('DROP INDEX packs_dead', 'PRAGMA user_version = 2')).not.toThrow();
});

test('two trees with one root are damage: to empty one would empty the other', () => {
  using database = new Database(':memory:');
  migrate(database, 'x');
  const bytes = database.serialize();
  const name = 'nodes_waitingnodes';
  // An earlier place of the row is left in the first page.
  const root = bytes.lastIndexOf(name) + name.length;
  const sql = "SELECT rootpage FROM sqlite_schema WHERE name IN ('nodes_waiting', 'packs') ORDER BY name";
  const [own, other] = database.query(sql).values().flat() as [number, number];
  expect(bytes[root]).toBe(own);
  bytes[root] = other;
  using wrong = Database.deserialize(bytes);
  expect(() => assertSchema(wrong)).toThrow('the place of');
});
