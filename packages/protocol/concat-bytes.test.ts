import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { concatBytes } from './little-endian.ts';

test('joins the parts in their order, empty ones too', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 9 }), (parts) => {
      expect([...concatBytes(parts)]).toEqual(parts.flatMap((part) => [...part]));
    }),
  );
});

test('gives memory of its own, even for one part', () => {
  const part = Uint8Array.of(1, 2);
  const whole = concatBytes([part]);
  part[0] = 9;
  expect([...whole]).toEqual([1, 2]);
});
