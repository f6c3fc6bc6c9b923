/** A table that is damaged is looked at whole once in a while, not for each statement that misses its row. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { TableFaults } from './table-faults.ts';

const folder = makeTempFolder('table-faults', { fast: true });
afterAll(() => folder.remove());

/** A key of the table is not in its index any more. */
function openDamaged(): Database {
  const path = join(folder.path, 'rows.db');
  const origin = new Database(path);
  origin.run('CREATE TABLE sound (value)');
  origin.run('CREATE TABLE damaged (value TEXT UNIQUE)');
  origin.run("INSERT INTO damaged VALUES ('a text of its own')");
  origin.close();
  const file = readFileSync(path);
  file[file.indexOf('a text of its own')] = 'b'.charCodeAt(0);
  writeFileSync(path, file);
  return new Database(path);
}

test('a fault is said again without another look, for ten minutes', () => {
  using database = openDamaged();
  const looks: string[] = [];
  const counted = new Proxy(database, {
    get(target, name) {
      if (name !== 'prepare') return Reflect.get(target, name, target);
      return (sql: string) => {
        looks.push(sql);
        return target.prepare(sql);
      };
    },
  });
  let now = 0;
  const faults = new TableFaults(counted, () => now);
  for (; now < 600_000; now += 60_000) expect(faults.find('damaged')).toMatch(/missing from index/);
  expect(looks).toHaveLength(1);
  expect(faults.find('damaged')).toMatch(/missing from index/);
  expect(looks).toHaveLength(2);
  database.run('REINDEX damaged');
  now += 600_000;
  for (const table of ['damaged', 'sound', 'sound']) expect(faults.find(table)).toBeUndefined();
  expect(looks).toHaveLength(5);
});
