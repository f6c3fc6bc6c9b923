import { expect, test } from 'bun:test';
import { expectBytes } from './expect.ts';

test.each([
  [1, 2, 'exactly 2 bytes', '1 byte, first'],
  [2, 1, 'exactly 1 byte', '2 bytes, longer'],
])('%d for %d bytes: a person reads 1 byte, and 2 bytes', (came, wanted, expected, actual) => {
  const compare = () => expectBytes(new Uint8Array(came).fill(9), new Uint8Array(wanted).fill(9), 'content');
  expect(compare).toThrow(expected);
  expect(compare).toThrow(actual);
});
