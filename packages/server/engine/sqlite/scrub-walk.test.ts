import { expect, test } from 'bun:test';
import { ScrubWalk } from './scrub-walk.ts';

const AFTER = `7.${'f0'.repeat(32)}`;

test('continues behind the row that was read last', () => {
  const walk = new ScrubWalk();
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '' });
  expect(walk.from(AFTER)).toEqual({ space: 7, hash: 'f0'.repeat(32) });
});

test('skips damaged rows in ever larger steps, then continues in the next Space', () => {
  const walk = new ScrubWalk();
  const places: string[] = [];
  for (let tries = 0; tries < 10; tries += 1) {
    walk.skip(AFTER);
    const { space, hash } = walk.from(AFTER);
    places.push(`${space}.${hash}`);
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
  expect(places).toEqual([...first, '8.', '8.00100000', '8.00300000']);
});

test('skips neither another place nor the same place in the next walk', () => {
  const walk = new ScrubWalk();
  walk.skip(undefined);
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '00100000' });
  expect(walk.from(AFTER)).toEqual({ space: 7, hash: 'f0'.repeat(32) });
  walk.goOn();
  expect(walk.from(undefined)).toEqual({ space: 0, hash: '' });
});
