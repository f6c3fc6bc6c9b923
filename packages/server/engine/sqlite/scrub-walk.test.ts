import { expect, test } from 'bun:test';
import { ScrubWalk } from './scrub-reads.ts';

/** Ids of Spaces have gaps where a Space was undone. */
const SPACES = [1, 7, 9];
const openWalk = (spaces = SPACES) => new ScrubWalk((space) => spaces.find((id) => id > space));

const AFTER = `7.${'f0'.repeat(32)}`;

test('continues behind the row that was read last', () => {
  const walk = openWalk();
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '' });
  expect(walk.from(AFTER)).toEqual({ space: 7, hash: 'f0'.repeat(32) });
});

test('skips damaged rows in ever larger steps, then continues in the next Space that exists', () => {
  const walk = openWalk();
  const places: string[] = [];
  for (let tries = 0; tries < 10; tries += 1) {
    walk.skip(AFTER);
    const at = walk.from(AFTER);
    places.push(`${at?.space}.${at?.hash}`);
  }
  const first = [
    '7.f100f0f0',
    '7.f120f0f0',
    '7.f160f0f0',
    '7.f1e0f0f0',
    '7.f2e0f0f0',
    '7.f4e0f0f0',
    '7.f8e0f0f0',
  ];
  expect(places).toEqual([...first, '9.', '9.00100000', '9.00300000']);
});

test('skips neither another place nor the same place in the next walk', () => {
  const walk = openWalk();
  walk.skip(undefined);
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '00100000' });
  expect(walk.from(AFTER)).toEqual({ space: 7, hash: 'f0'.repeat(32) });
  walk.goOn();
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '' });
});

test('ends behind the last Space if all of the rest is damaged, and the next walk begins again', () => {
  const walk = openWalk();
  let tries = 0;
  for (; walk.from(undefined) !== undefined && tries < 1000; tries += 1) walk.skip(undefined);
  // 13 tries in each Space, and in the place before the first.
  expect(tries).toBe(13 * (SPACES.length + 1));
  expect(walk.from(undefined)).toBeUndefined();
  walk.skip(undefined);
  expect(walk.from(undefined)).toBeUndefined();
  walk.goOn();
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '' });
});
