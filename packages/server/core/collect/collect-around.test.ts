import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { RowDamaged } from '../store-failure.ts';
import { smallNode } from '../test/core-fixture.ts';
import { forFew, takeDown } from './collect-around.ts';

const hashes: readonly Hash[] = Array.from({ length: 20 }, (_, seed) => smallNode(seed).hash);
const CALLS_MAX = 100;

test('what cannot be worked on because of damage is left out, and holds up no others', async () => {
  const damaged = hashes[11] as Hash;
  let calls = 0;
  const work = async (few: readonly Hash[]): Promise<readonly Hash[]> => {
    calls += 1;
    if (calls > CALLS_MAX) throw new Error('this does not come to an end');
    if (few.includes(damaged)) throw new RowDamaged('planted');
    return few;
  };
  expect(await forFew(hashes, work)).toEqual(hashes.filter((hash) => hash !== damaged));
});

test('no more is taken than there is room for', async () => {
  const taken: Hash[] = [];
  const take = async (few: readonly Hash[]) => {
    taken.push(...few);
    return [];
  };
  await takeDown(hashes, () => 0, take);
  expect(taken).toEqual([]);
  await takeDown(hashes, () => 5 - taken.length, take);
  expect(taken).toEqual(hashes.slice(0, 5));
});
