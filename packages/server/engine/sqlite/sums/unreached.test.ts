import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { migrate } from '../migrations.ts';
import { findUnreachedTables } from './unreached.ts';

test('rows without an owner are found behind many that have one, and others have their turn meanwhile', async () => {
  using database = new Database(':memory:');
  migrate(database, 'x');
  const numbers = 'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25)';
  database.run(`${numbers} INSERT INTO spaces (id, app_id, space_id) SELECT i, 'app', 'space ' || i FROM n`);
  database.run(
    `${numbers} INSERT INTO loose_edges (space, hash, count) SELECT i, zeroblob(32), 1 FROM n WHERE i <> 20`,
  );
  let turns = 0;
  const count = (): void => {
    turns += 1;
    immediate = setImmediate(count);
  };
  let immediate = setImmediate(count);
  try {
    expect(await findUnreachedTables(database, 5)).toEqual([]);
    expect(turns).toBeGreaterThan(3);
    for (const id of [20, 25]) {
      database.run('UPDATE spaces SET id = id + 100 WHERE id = ?', [id]);
      expect(await findUnreachedTables(database, 5)).toEqual(id === 20 ? [] : ['loose_edges']);
    }
    for (const size of [1, 24, 25, 1_000])
      expect(await findUnreachedTables(database, size)).toEqual(['loose_edges']);
  } finally {
    clearImmediate(immediate);
  }
});
