import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { HashTable } from './hash-table.ts';

const hashes = fc.array(
  fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex')),
  { maxLength: 400 },
);

test('agrees with a Set', () => {
  fc.assert(
    fc.property(hashes, hashes, (added, asked) => {
      const set = new HashTable();
      const model = new Set<string>();
      for (const hash of [...added, ...added]) {
        expect(set.add(hash)).toBe(!model.has(hash));
        model.add(hash);
      }
      expect(set.size).toBe(model.size);
      for (const hash of [...added, ...asked]) expect(set.has(hash)).toBe(model.has(hash));
    }),
  );
});

test('grows within a shard, and knows the hash of zeros', () => {
  const set = new HashTable();
  const inOneShard = Array.from({ length: 5_000 }, (_, index) => index.toString(16).padStart(64, '0'));
  for (const hash of inOneShard) expect(set.add(hash)).toBe(true);
  for (const hash of inOneShard) expect(set.add(hash)).toBe(false);
  expect(set.size).toBe(5_000);
  expect(set.has('f'.repeat(64))).toBe(false);
});

test('numbers agree with a Map', () => {
  const pairs = fc.array(fc.tuple(fc.nat(300), fc.nat(2 ** 32 - 1)), { maxLength: 800 });
  fc.assert(
    fc.property(pairs, (sets) => {
      const table = new HashTable('numbers');
      const model = new Map<string, number>();
      for (const [id, number] of sets) {
        // Few shards, so that they grow.
        const hash = `0${id % 2}${id.toString(16).padStart(62, '0')}`;
        table.set(hash, number);
        model.set(hash, number);
      }
      expect(table.size).toBe(model.size);
      for (const [hash, number] of model) expect(table.find(hash)).toBe(number);
      expect(table.find('f'.repeat(64))).toBeUndefined();
    }),
  );
});
