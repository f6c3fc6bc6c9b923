import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { KeptBytes } from './kept-client.ts';

const bytesOf = (key: number, length: number): Uint8Array => new Uint8Array(length).fill(key);

test('a value is what was kept under its key, or is not there', () => {
  const steps = fc.array(fc.tuple(fc.nat(20), fc.nat(900)), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (kept) => {
      const values = new KeptBytes(4096);
      const lengths = new Map<number, number>();
      for (const [key, length] of kept) {
        const isThere = values.find(`${key}`) !== undefined;
        values.keep(`${key}`, bytesOf(key, length));
        if (!isThere) lengths.set(key, length);
        // The last one is always there.
        expect(values.find(`${key}`)).toBeDefined();
        for (const [each, bytes] of lengths)
          expect([undefined, bytesOf(each, bytes)]).toContainEqual(values.find(`${each}`));
      }
    }),
  );
});

test('the oldest go first, and values without bytes too', () => {
  const values = new KeptBytes(1024);
  for (const key of ['a', 'b', 'c', 'd']) values.keep(key, new Uint8Array());
  values.keep('e', new Uint8Array());
  expect(['a', 'b', 'c', 'd', 'e'].filter((key) => values.find(key) !== undefined)).toEqual([
    ...['b', 'c', 'd', 'e'],
  ]);
});

test('what was found stays as it is when the block is written over', () => {
  const values = new KeptBytes(1024);
  values.keep('a', bytesOf(1, 700));
  const found = values.find('a');
  values.keep('b', bytesOf(2, 700));
  expect(found).toEqual(bytesOf(1, 700));
  expect(values.find('a')).toBeUndefined();
});

test('a value that does not fit is not kept', () => {
  const values = new KeptBytes(1024);
  values.keep('a', bytesOf(1, 1024));
  expect(values.find('a')).toBeUndefined();
});
