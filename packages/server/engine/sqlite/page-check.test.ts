/** The look at the pages of the databases of a folder, where even the first page is damaged, or a file is not one of SQLite. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { openWriter } from './database.ts';
import { checkPages } from './page-check.ts';

const PAGE_BYTES = 4096;

let folder: ReturnType<typeof makeTempFolder>;
beforeEach(() => {
  folder = makeTempFolder('page-check');
  for (const name of ['holdfast.db', 'registry.db']) {
    const database = openWriter(join(folder.path, name), undefined);
    database.run('CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    database.run('CREATE INDEX rows_by_text ON rows(text)');
    const insert = database.prepare('INSERT INTO rows (text) VALUES (?)');
    database.transaction(() => {
      for (let row = 0; row < 1000; row += 1) insert.run(`row ${row}`);
    })();
    insert.finalize();
    database.run('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
  }
});
afterEach(() => folder.remove());

const look = () =>
  [...checkPages(folder.path, false)].flatMap(({ damage }) => damage.map(({ message }) => message));

function spoil(file: string, page: number): void {
  const descriptor = openSync(join(folder.path, file), 'r+');
  writeSync(descriptor, new Uint8Array(PAGE_BYTES).fill(0xff), 0, PAGE_BYTES, (page - 1) * PAGE_BYTES);
  closeSync(descriptor);
}

function rootOf(file: string, name: string): number {
  using database = new Database(join(folder.path, file), { readonly: true });
  const row = database
    .query<{ rootpage: number }, [string]>('SELECT rootpage FROM sqlite_schema WHERE name = ?')
    .get(name);
  return row?.rootpage ?? 0;
}

test('sound databases have nothing, and each table is named before it is looked at', () => {
  expect([...checkPages(folder.path, false)]).toEqual([
    { table: 'rows of holdfast.db', damage: [] },
    { table: 'rows of registry.db', damage: [] },
    { table: undefined, damage: [] },
  ]);
});

test('a damaged root is named by its table or index, in either database', () => {
  spoil('holdfast.db', rootOf('holdfast.db', 'rows_by_text'));
  spoil('registry.db', rootOf('registry.db', 'rows'));
  expect(look()).toEqual([
    expect.stringMatching(/^holdfast\.db: the index rows_by_text is damaged: page \d+: .*; check the disk/),
    expect.stringMatching(/^registry\.db: the table rows is damaged: .*; check the disk/),
  ]);
});

test('a file whose first page is damaged is named, and the other is looked at', () => {
  spoil('holdfast.db', 1);
  spoil('registry.db', rootOf('registry.db', 'rows_by_text'));
  expect(look()).toEqual([
    expect.stringMatching(/^holdfast\.db: .*not a database; check the disk/),
    expect.stringContaining('registry.db: the index rows_by_text is damaged'),
  ]);
});

test('an index with another key than its row is named, and a repair builds it anew', () => {
  spoilKey();
  expect(look()).toEqual([
    expect.stringMatching(/^holdfast\.db: the index rows_by_text is damaged: row \d+ missing from index/),
  ]);
  const repaired = [...checkPages(folder.path, true)].flatMap(({ damage }) => damage);
  expect(repaired.map((each) => each.repaired)).toEqual([true]);
  expect(look()).toEqual([]);
});

test('an index that two rows keep from being built anew stays named, and the look goes on', () => {
  const change = (sql: string): void => {
    const database = openWriter(join(folder.path, 'holdfast.db'), undefined);
    database.run(sql);
    database.run('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
  };
  change('DROP INDEX rows_by_text');
  change('CREATE UNIQUE INDEX rows_by_text ON rows(text)');
  // The index lacks the row, so a second row with the same key is accepted.
  change(`INSERT INTO rows (text) VALUES ('${spoilKey()}')`);
  const steps = [...checkPages(folder.path, true)];
  expect(steps.flatMap(({ damage }) => damage)).toMatchObject([
    { message: expect.stringContaining('the index rows_by_text is damaged'), repaired: false },
  ]);
  expect(steps.map(({ table }) => table)).toContain('rows of registry.db');
});

test('a table whose rows are out of order is put in order by a repair, and no row of it is lost', () => {
  const change = openWriter(join(folder.path, 'holdfast.db'), undefined);
  change.run('UPDATE rows SET id = -id * 1000');
  change.run('UPDATE rows SET id = -id');
  change.run('PRAGMA wal_checkpoint(TRUNCATE)');
  change.close();
  misplaceRow();
  const isFound = (): number[] => {
    using database = new Database(join(folder.path, 'holdfast.db'), { readonly: true });
    const find = database.query('SELECT 1 FROM rows WHERE id = ?');
    const ids = database.query<{ id: number }, []>('SELECT id FROM rows NOT INDEXED').all();
    return ids.filter(({ id }) => find.get(id) !== null).map(({ id }) => id);
  };
  expect(isFound().length).toBeLessThan(1000);
  expect(look()).toEqual([
    expect.stringMatching(/^holdfast\.db: the table rows is damaged: .*out of order.*check --repair puts/),
  ]);
  const repaired = [...checkPages(folder.path, true)].flatMap(({ damage }) => damage);
  expect(repaired.map((each) => each.repaired)).toEqual([true]);
  expect(look()).toEqual([]);
  expect(isFound()).toHaveLength(1000);
});

test('a repair keeps a record whose bytes a wrong header calls text', () => {
  const path = join(folder.path, 'holdfast.db');
  const change = openWriter(path, undefined);
  change.run(
    'CREATE TABLE contents (id INTEGER PRIMARY KEY, generation BLOB NOT NULL UNIQUE, bytes BLOB) STRICT',
  );
  for (let id = 1; id <= 3; id += 1)
    change.run('INSERT INTO contents VALUES (?, ?, ?)', [
      id,
      Buffer.alloc(24, id),
      Buffer.alloc(40, 0xf0 + id),
    ]);
  change.run('PRAGMA wal_checkpoint(TRUNCATE)');
  change.close();
  for (const [place, value] of [
    [1, 60],
    [2, 92],
  ] as const) {
    const file = readFileSync(path);
    const leaf = (rootOf('holdfast.db', 'contents') - 1) * PAGE_BYTES;
    // Of the record 2: its length, its id, and the header of 4 bytes that begins with its length.
    const header = leaf + file.readUInt16BE(leaf + 8 + 2) + 2;
    expect(file[header + 1 + place]).toBe(value);
    const descriptor = openSync(path, 'r+');
    writeSync(descriptor, Buffer.of(value + 1), 0, 1, header + 1 + place);
    closeSync(descriptor);
    expect(look().join()).toMatch(/contents/);
    expect(
      [...checkPages(folder.path, true)].flatMap(({ damage }) => damage.map((each) => each.repaired)),
    ).toContain(true);
    expect(look()).toEqual([]);
    using database = new Database(path, { readonly: true });
    expect(database.query('SELECT id, hex(generation) AS g, hex(bytes) AS b FROM contents').all()).toEqual(
      [1, 2, 3].map((id) => ({ id, g: `0${id}`.repeat(24), b: `F${id}`.repeat(40) })),
    );
    const checkpoint = openWriter(path, undefined);
    checkpoint.run('PRAGMA wal_checkpoint(TRUNCATE)');
    checkpoint.close();
  }
});

test('records on a page that says a wrong place of one are all written anew by a repair', () => {
  const path = join(folder.path, 'holdfast.db');
  const change = openWriter(path, undefined);
  change.run('CREATE TABLE contents (id INTEGER PRIMARY KEY, generation BLOB NOT NULL UNIQUE)');
  for (let row = 1; row <= 10; row += 1)
    change.run('INSERT INTO contents (generation) VALUES (randomblob(16))');
  change.run('PRAGMA wal_checkpoint(TRUNCATE)');
  change.close();
  const placeOfFirst = (rootOf('holdfast.db', 'contents') - 1) * PAGE_BYTES + 8;
  const wrong = (readFileSync(path)[placeOfFirst] as number) ^ 0x40;
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, Buffer.of(wrong), 0, 1, placeOfFirst);
  closeSync(descriptor);
  expect(look()).toEqual([expect.stringMatching(/^holdfast\.db: the table contents is damaged: /)]);
  const repaired = [...checkPages(folder.path, true)].flatMap(({ damage }) => damage);
  expect(repaired.map((each) => each.repaired)).toEqual([true]);
  expect(look()).toEqual([]);
  using database = new Database(path, { readonly: true });
  expect(database.query('SELECT count(*) AS count FROM contents').get()).toEqual({ count: 10 });
});

/** The row 4000 of the first leaf gets the id 12192, behind which 5000 to 12000 stand. */
function misplaceRow(): void {
  const path = join(folder.path, 'holdfast.db');
  const file = readFileSync(path);
  const inner = (rootOf('holdfast.db', 'rows') - 1) * PAGE_BYTES;
  const leaf = (file.readUInt32BE(inner + file.readUInt16BE(inner + 12)) - 1) * PAGE_BYTES;
  const cell = leaf + file.readUInt16BE(leaf + 8 + 2 * 3);
  expect([file[cell + 1], file[cell + 2]]).toEqual([0x9f, 0x20]);
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, Buffer.of(0xdf), 0, 1, cell + 1);
  closeSync(descriptor);
}

/** Returns the text of the row whose key it was. */
function spoilKey(): string {
  const path = join(folder.path, 'holdfast.db');
  const file = readFileSync(path);
  const leaf = leafBelow(file, (rootOf('holdfast.db', 'rows_by_text') - 1) * PAGE_BYTES);
  const at = file.lastIndexOf('row 9', leaf + PAGE_BYTES);
  expect(at).toBeGreaterThan(leaf);
  expect(at).toBeLessThan(leaf + PAGE_BYTES);
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, Buffer.from('rxx'), 0, 3, at);
  closeSync(descriptor);
  return /^row \d+/.exec(file.toString('latin1', at, at + PAGE_BYTES))?.[0] ?? '';
}

/** The last page of the index that holds keys. */
function leafBelow(file: Buffer, page: number): number {
  const isLeaf = file[page] === 0x0a;
  return isLeaf ? page : leafBelow(file, (file.readUInt32BE(page + 8) - 1) * PAGE_BYTES);
}
