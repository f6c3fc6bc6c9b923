/** Places in trees as people write them. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { parseLocation, parseTreePath } from './reference.ts';

const HASH = 'a'.repeat(64);
const name = fc.string({ minLength: 1 }).filter((text) => !text.includes('/') && text !== '.');
/** Separators that a person may write between names without meaning another place. */
const joint = fc.constantFrom('/', '//', '/./', '/././');

function textsOf(names: readonly Uint8Array[]): string[] {
  return names.map((bytes) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
}

test('./ in front, / at the end and either in between are no names', () => {
  const names = fc.array(name, { minLength: 1, maxLength: 5 });
  const ends = [fc.constantFrom('', './', '/', '././'), fc.constantFrom('', '/', '/.')] as const;
  fc.assert(
    fc.property(names, joint, ...ends, (parts, between, before, after) => {
      const path = parts.join(between);
      const texts = parts.map((part) => part.toWellFormed());
      expect(textsOf(parseTreePath(`${before}${path}${after}`))).toEqual(texts);
      expect(textsOf(parseLocation(`${HASH}/${before}${path}${after}`).names)).toEqual(texts);
    }),
  );
});

test('a range has at least one name', () => {
  for (const text of ['', '.', './', '/']) expect(() => parseTreePath(text)).toThrow('at least one name');
  expect(parseLocation(`${HASH}/./`).names).toEqual([]);
});
