/** Finding the hashes without a row, many at once. */
import { expect, test } from 'bun:test';
import { hashAt } from '../test/samples.ts';
import { FIND_KNOWN_NODES, findAbsent } from './absent-nodes.ts';
import { bytesToHex } from './rows.ts';

const PARAMETERS = FIND_KNOWN_NODES.match(/\?\d+/g)?.length ?? 0;

test('of many hashes exactly those without a row are absent, whatever the last statement asks twice', () => {
  for (const count of [PARAMETERS - 1, PARAMETERS, 100]) {
    const hashes = Array.from({ length: count }, (_, index) => hashAt(index));
    const known = new Set(hashes.filter((_, index) => index % 3 === 0));
    const find = (space: number, some: readonly Uint8Array[]) => {
      expect([space, some.length]).toEqual([7, PARAMETERS - 1]);
      return some.filter((hash) => known.has(bytesToHex(hash))).map((hash) => ({ hash }));
    };
    expect([...findAbsent(find, 7, hashes)]).toEqual(hashes.filter((hash) => !known.has(hash)));
  }
});

test('where most hashes have a row, one statement is enough', () => {
  let asked = 0;
  const find = (_: number, some: readonly Uint8Array[]) => {
    asked += 1;
    return some.slice(1).map((hash) => ({ hash }));
  };
  const hashes = Array.from({ length: 100 }, (_, index) => hashAt(index));
  expect([[...findAbsent(find, 7, hashes)], asked]).toEqual([hashes.slice(0, 1), 1]);
});

test('few hashes are not asked for together', () => {
  const find = () => {
    throw new Error('nothing is asked');
  };
  expect(findAbsent(find, 7, [hashAt(1), hashAt(2)]).size).toBe(0);
});
