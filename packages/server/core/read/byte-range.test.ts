import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { parseByteRange } from './byte-range.ts';

const part = (start: number, end: number) => ({ kind: 'part', start, end });
const UNSATISFIABLE = { kind: 'unsatisfiable' };

test('no header reads the whole', () => {
  expect(parseByteRange(undefined, 10)).toEqual({ kind: 'whole' });
  expect(parseByteRange(undefined, 0)).toEqual({ kind: 'whole' });
});

test.each([
  ['bytes=0-0', 10, part(0, 1)],
  ['bytes=0-9', 10, part(0, 10)],
  ['bytes=0-10', 10, part(0, 10)],
  ['bytes=9-', 10, part(9, 10)],
  ['bytes=-3', 10, part(7, 10)],
  ['bytes=-10', 10, part(0, 10)],
  ['bytes=-11', 10, part(0, 10)],
  [`bytes=3-${'9'.repeat(400)}`, 10, part(3, 10)],
  [`bytes=-${'9'.repeat(400)}`, 10, part(0, 10)],
  ['bytes=007-8', 10, part(7, 9)],
] as const)('%s of %d bytes', (header, size, expected) => {
  expect(parseByteRange(header, size)).toEqual(expected as ReturnType<typeof parseByteRange>);
});

test.each([
  ['', 10],
  ['bytes=', 10],
  ['bytes=-', 10],
  ['bytes=-0', 10],
  ['bytes=-000', 10],
  ['bytes=10-', 10],
  ['bytes=10-12', 10],
  ['bytes=5-4', 10],
  [`bytes=${'9'.repeat(400)}-`, 10],
  [`bytes=12-11`, 10],
  ['bytes=0-1,3-4', 10],
  ['bytes=0-1, 3-4', 10],
  ['Bytes=0-1', 10],
  ['items=0-1', 10],
  ['bytes 0-1', 10],
  ['bytes= 0-1', 10],
  ['bytes=0 -1', 10],
  ['bytes=+0-1', 10],
  ['bytes=0x1-2', 10],
  ['bytes=0-1\n', 10],
  ['bytes=0-', 0],
  ['bytes=-1', 0],
  ['bytes=0-0', 0],
] as const)('%p of %d bytes is unsatisfiable', (header, size) => {
  expect(parseByteRange(header, size)).toEqual(UNSATISFIABLE as ReturnType<typeof parseByteRange>);
});

test('an answered range is never empty and lies within the content', () => {
  const digits = fc.oneof(
    fc.nat(40).map(String),
    fc.bigInt({ min: 0n, max: 10n ** 30n }).map(String),
    fc.constant(''),
  );
  const header = fc.oneof(
    fc.tuple(digits, digits).map(([first, last]) => `bytes=${first}-${last}`),
    fc.string({ maxLength: 20 }),
    fc.string({ maxLength: 8 }).map((text) => `bytes=${text}`),
  );
  fc.assert(
    fc.property(header, fc.nat(30), (text, size) => {
      const range = parseByteRange(text, size);
      if (range.kind !== 'part') return range.kind === 'unsatisfiable';
      return range.start >= 0 && range.start < range.end && range.end <= size;
    }),
    { numRuns: 2000 },
  );
});

test('a bounded range selects what slice selects', () => {
  fc.assert(
    fc.property(fc.nat(30), fc.nat(30), fc.integer({ min: 1, max: 30 }), (first, last, size) => {
      const range = parseByteRange(`bytes=${first}-${last}`, size);
      const bytes = Array.from({ length: size }, (_, index) => index);
      if (first > last || first >= size) return range.kind === 'unsatisfiable';
      expect(range.kind === 'part' ? bytes.slice(range.start, range.end) : undefined).toEqual(
        bytes.slice(first, last + 1),
      );
      return true;
    }),
  );
});
