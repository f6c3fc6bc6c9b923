import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { countOf, formatBytes, formatCount, parseSize } from './size.ts';

const UNITS: readonly (readonly [string, number])[] = [
  ['', 1],
  ...['Ki', 'Mi', 'Gi', 'Ti'].map((unit, index) => [`${unit}B`, 1024 ** (index + 1)] as const),
  ...['k', 'M', 'G', 'T'].map((unit, index) => [`${unit}B`, 1000 ** (index + 1)] as const),
];

describe('parseSize', () => {
  test('an integer times its unit, whatever both are', () => {
    fc.assert(
      fc.property(fc.nat(8_000), fc.constantFrom(...UNITS), (count, [unit, bytes]) => {
        expect(parseSize(`${count}${unit}`)).toBe(count * bytes);
      }),
    );
  });

  test.each([
    '',
    'KiB',
    '5 MiB',
    ' 5',
    '5\n',
    '05',
    '-5',
    '+5',
    '1.5GiB',
    '1e3',
    '5kib',
    '5KB',
    '5K',
    '5B',
    '5MiBs',
    '٥MiB',
  ])('refuses %p', (text) => {
    expect(() => parseSize(text)).toThrow(RangeError);
  });

  test.each(['9007199254740992', '9000TiB', `${'1'.repeat(400)}kB`])('%s is too large', (text) => {
    expect(() => parseSize(text)).toThrow(/too large/);
  });

  test('any text parses or throws RangeError', () => {
    const text = fc.string({
      unit: fc.constantFrom('0', '1', '9', 'k', 'K', 'M', 'i', 'B', 'T', ' ', '-', '.'),
    });
    fc.assert(
      fc.property(text, (value) => {
        try {
          expect(Number.isSafeInteger(parseSize(value))).toBe(true);
          expect(value).toMatch(/^\d+([KMGT]iB|[kMGT]B)?$/);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});

test.each<[number, string]>([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [1536, '1.5 KiB'],
  [99.94 * 1024, '99.9 KiB'],
  [102_400, '100 KiB'],
  [1024 ** 3, '1.0 GiB'],
  [Number.MAX_SAFE_INTEGER, '8.0 PiB'],
])('%d bytes read as %p', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test('counts have commas', () => {
  expect([countOf(1, 'node'), countOf(0, 'node'), countOf(2, 'entry', 'entries')]).toEqual([
    '1 node',
    '0 nodes',
    '2 entries',
  ]);
  expect([0, 999, 1000, 1_234_567].map(formatCount)).toEqual(['0', '999', '1,000', '1,234,567']);
});
