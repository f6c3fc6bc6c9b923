import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { isBase64url } from './capability.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

test('exactly the texts that encode some bytes', () => {
  const text = fc
    .array(fc.constantFrom(...ALPHABET, '=', '+', ' '), { maxLength: 12 })
    .map((all) => all.join(''));
  fc.assert(
    fc.property(text, (each) => {
      expect([each, isBase64url(each)]).toEqual([
        each,
        Buffer.from(each, 'base64url').toString('base64url') === each,
      ]);
    }),
    { numRuns: 5000 },
  );
});

test('one byte has four right endings, two bytes have sixteen', () => {
  expect([...ALPHABET].filter((last) => isBase64url(`A${last}`)).join('')).toBe('AQgw');
  expect([...ALPHABET].filter((last) => isBase64url(`AA${last}`))).toHaveLength(16);
});
