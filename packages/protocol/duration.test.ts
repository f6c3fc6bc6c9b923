import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { formatDuration, parseDuration } from './duration.ts';

describe('parseDuration', () => {
  test.each([
    ['0s', 0],
    ['250ms', 250],
    ['1s', 1000],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['9007199254740991ms', 9007199254740991],
  ])('%s', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  test.each([
    '',
    '5',
    'm',
    '5M',
    '5 m',
    ' 5m',
    '5m ',
    '5m\n',
    '05m',
    '-5m',
    '+5m',
    '1.5h',
    '1e3s',
    '5min',
    '1h30m',
    '0x5m',
    '٥m',
    '9007199254740992ms',
    '999999999999d',
    `${'1'.repeat(400)}s`,
  ])('refuses %p', (text) => {
    expect(() => parseDuration(text)).toThrow(RangeError);
  });

  test('any text parses or throws RangeError', () => {
    const text = fc.string({ unit: fc.constantFrom('0', '1', '9', 'm', 's', 'h', 'd', ' ', '-', '.', 'x') });
    fc.assert(
      fc.property(text, (value) => {
        try {
          expect(parseDuration(value)).toBeGreaterThanOrEqual(0);
          expect(value).toMatch(/^\d+(ms|[smhd])$/);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});

describe('formatDuration', () => {
  test.each([
    [0, '0s'],
    [1, '1ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [300_000, '5m'],
    [86_400_000, '24h'],
    [172_800_000, '2d'],
  ])('%d', (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text);
  });

  test('parses back', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => expect(parseDuration(formatDuration(value))).toBe(value)),
    );
  });

  test.each([-1, 1.5, Number.NaN, 2 ** 53])('refuses %d', (value) => {
    expect(() => formatDuration(value)).toThrow(RangeError);
  });
});
