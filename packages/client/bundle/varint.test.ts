import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { encodeVarint, VarintParser } from './varint.ts';

function parse(bytes: Iterable<number>): number | undefined {
  const parser = new VarintParser();
  for (const byte of bytes) {
    const value = parser.push(byte);
    if (value !== undefined) return value;
  }
  return undefined;
}

describe('varint', () => {
  test('known encodings', () => {
    expect([...encodeVarint(0)]).toEqual([0]);
    expect([...encodeVarint(127)]).toEqual([0x7f]);
    expect([...encodeVarint(128)]).toEqual([0x80, 0x01]);
    expect([...encodeVarint(300)]).toEqual([0xac, 0x02]);
    expect(encodeVarint(Number.MAX_SAFE_INTEGER)).toHaveLength(8);
  });

  test('what was encoded comes back', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        expect(parse(encodeVarint(value))).toBe(value);
      }),
    );
  });

  test('whatever is taken is the one encoding of its value', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 12 }), (bytes) => {
        const parser = new VarintParser();
        let value: number | undefined;
        try {
          for (const byte of bytes) {
            value = parser.push(byte);
            if (value !== undefined) break;
          }
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
          return;
        }
        if (value !== undefined) expect(encodeVarint(value)).toEqual(bytes.slice(0, parser.byteCount));
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    ['a needless zero byte', [0x80, 0x00], /needless/],
    ['nine bytes', [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], /longer than 8/],
    ['2^53', [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10], /greater/],
  ])('refuses %s', (_, bytes, reason) => {
    expect(() => parse(bytes)).toThrow(reason);
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 53])('does not encode %p', (value) => {
    expect(() => encodeVarint(value)).toThrow(RangeError);
  });
});
