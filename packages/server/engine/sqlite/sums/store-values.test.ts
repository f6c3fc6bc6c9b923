/** A wrong bit of a value of the store: it is refused, named by a check, and put right by the next start. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashAt, insertNodes, ManualClock, readyNode, SPACE } from '../../test/samples.ts';
import { SqliteMetadataStore } from '../metadata-store.ts';
import { decodeVerdicts } from '../packs/pack-codecs.ts';

const onFatal = (error: Error) => {
  throw error;
};

test.each([
  ['a value', "UPDATE store SET value = 'stose 1' WHERE name = 'id'"],
  ['a name', "UPDATE store SET name = 'ie' WHERE name = 'id'"],
  ['a sum', "UPDATE store SET row_sum = row_sum + 1 WHERE name = 'id' AND row_sum % 2 = 0"],
])('%s', async (_, damage) => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-store-'));
  const path = join(folder, 'holdfast.db');
  const open = () => new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  const check = async (store: SqliteMetadataStore) =>
    (
      await store.findRowDamage({
        ...{ signal: new AbortController().signal, onTable: () => undefined, isRepaired: false },
      })
    ).map(({ message }) => message);
  let store = open();
  await store.insertStoreValue('id', 'store 1');
  expect(await check(store)).toEqual([]);
  const other = new Database(path, { readwrite: true });
  const { changes } = other.run(damage);
  other.close();
  if (changes > 0) {
    if (damage.includes('SET value')) expect(() => store.findStoreValue('id')).toThrow(/the value id/);
    expect((await check(store)).join()).toMatch(/^the row of store name "id" has one wrong bit/);
  }
  await store.close();
  store = open();
  expect(store.findStoreValue('id')).toBe('store 1');
  expect(await check(store)).toEqual([]);
  await store.close();
  await rm(folder, { recursive: true });
});

test('a row with two sums, both of which a wrong key breaks, is named once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-store-'));
  const path = join(folder, 'holdfast.db');
  const store = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  await insertNodes(store, SPACE, [readyNode(hashAt(1))]);
  const other = new Database(path, { readwrite: true });
  other.run('UPDATE spaces SET id = 65');
  other.close();
  const look = { signal: new AbortController().signal, onTable: () => undefined, isRepaired: false };
  const named = (await store.findRowDamage(look)).map(({ message }) => message);
  expect(
    named.filter((message) => message.startsWith('the row of spaces id 1 has one wrong bit in id')),
  ).toHaveLength(1);
  await store.close();
  await rm(folder, { recursive: true });
});

test('bits of each byte of a name and a value, one of which is no text any more', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-store-'));
  const path = join(folder, 'holdfast.db');
  const open = () => new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  const store = open();
  await store.insertStoreValue('copy-unfinished', 'a mark');
  await store.close();
  const database = new Database(path, { readwrite: true });
  const damage = database.prepare(
    'UPDATE store SET name = CAST(?1 AS TEXT), value = CAST(?2 AS TEXT) WHERE name = ?3',
  );
  const wrong: number[] = [];
  const [name, value] = [Buffer.from('copy-unfinished'), Buffer.from('a mark')];
  const length = name.length + value.length;
  for (const [at, bit] of Array.from(
    { length },
    (_, index) =>
      [
        [index, 1],
        [index, 7],
      ] as const,
  ).flat()) {
    const bytes = Buffer.concat([name, value]);
    bytes[at] = (bytes[at] as number) ^ (1 << bit);
    damage.run(bytes.subarray(0, name.length), bytes.subarray(name.length), name.toString());
    const opened = open();
    if (opened.findStoreValue('copy-unfinished') !== 'a mark') wrong.push(at);
    await opened.close();
  }
  expect(wrong).toEqual([]);
  database.close();
  await rm(folder, { recursive: true });
});

test('a name that a wrong bit put out of order among others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-store-'));
  const path = join(folder, 'holdfast.db');
  const open = () => new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((letter) => `${letter}-name`);
  const origin = open();
  for (const name of names) await origin.insertStoreValue(name, `of ${name}`);
  await origin.close();
  const file = await readFile(path);
  const wrong: string[] = [];
  for (const name of names) {
    for (const bit of [0x20, 0x80]) {
      const damaged = Buffer.from(file);
      const at = file.indexOf(`${name}of ${name}`);
      damaged[at] = (file[at] as number) ^ bit;
      await writeFile(path, damaged);
      const store = open();
      if (names.some((each) => store.findStoreValue(each) !== `of ${each}`)) wrong.push(`${name} ${bit}`);
      await store.close();
    }
  }
  expect(wrong).toEqual([]);
  await rm(folder, { recursive: true });
});

test('the verdicts of a pack that is broken at a byte, and says nothing', () => {
  const row = { hashes: new Uint8Array(0), rejections: '[]', broken_byte: 1, broken_message: null };
  expect(() => decodeVerdicts(row)).toThrow(/verdicts/);
});
