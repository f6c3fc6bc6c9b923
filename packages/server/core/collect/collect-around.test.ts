import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { RowDamaged } from '../store-failure.ts';
import { SPACE, smallNode } from '../test/core-fixture.ts';
import { findAround, forFew, takeDown } from './collect-around.ts';

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

test('a walk that begins anywhere reads each page once, and the first again up to where it began', async () => {
  const [first, second, third] = ['1', '2', '3'].map((digit) => digit.repeat(64)) as [Hash, Hash, Hash];
  const next = new Map<Hash | undefined, Hash | undefined>([
    [undefined, first],
    [first, third],
    [second, third],
  ]);
  const walk = async (start?: Hash) => {
    const read: (Hash | undefined)[] = [];
    const readNodesAround = (after: Hash | undefined) => {
      read.push(after);
      if (read.length > CALLS_MAX) throw new Error('this does not come to an end');
      return { nodes: [], unreadable: [], next: next.get(after) };
    };
    const inspect = async (_: unknown, look: (snapshot: unknown) => unknown) =>
      look({ now: 0, readNodesAround });
    const core = { metadata: { inspect } } as unknown as Core;
    const options = { isWanted: () => true, ...(start === undefined ? {} : { start }) };
    for await (const _ of findAround(core, SPACE, options));
    return read;
  };
  expect(await walk()).toEqual([undefined, first, third]);
  expect(await walk(second)).toEqual([second, third, undefined, first]);
});
