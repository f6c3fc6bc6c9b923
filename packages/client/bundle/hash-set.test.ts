import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { HashSet } from './hash-set.ts';

const hashes = fc.array(
  fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex')),
  { maxLength: 400 },
);

test('agrees with a Set', () => {
  fc.assert(
    fc.property(hashes, hashes, (added, asked) => {
      const set = new HashSet();
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
  const set = new HashSet();
  const inOneShard = Array.from({ length: 5_000 }, (_, index) => index.toString(16).padStart(64, '0'));
  for (const hash of inOneShard) expect(set.add(hash)).toBe(true);
  for (const hash of inOneShard) expect(set.add(hash)).toBe(false);
  expect(set.size).toBe(5_000);
  expect(set.has('f'.repeat(64))).toBe(false);
});
