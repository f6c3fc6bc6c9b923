/** Hosts that hang hold places for long, but never delay hosts that answer. */
import { expect, test } from 'bun:test';
import { JWKS_FETCHES_MAX } from './auth-limits.ts';
import { KeySetPlaces } from './key-set.ts';

test('key sets that failed get at most half of the places, the others any free place', () => {
  const places = new KeySetPlaces();
  const failing = Array.from({ length: JWKS_FETCHES_MAX }, () => places.begin(true));
  expect(failing.filter((place) => place === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
  const sound = Array.from({ length: JWKS_FETCHES_MAX }, () => places.begin(false));
  expect(sound.filter((place) => place === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
});

test('a place that ends goes to the longest waiter, and key sets that have not failed come first', async () => {
  const places = new KeySetPlaces();
  for (let count = 0; count < JWKS_FETCHES_MAX; count += 1) places.begin(count % 2 === 0);
  const got: string[] = [];
  const wait = (name: string, hasFailed: boolean): void => {
    void places.begin(hasFailed)?.then(() => got.push(name));
  };
  wait('failing', true);
  wait('first', false);
  wait('second', false);
  places.end(true);
  places.end(false);
  await Promise.resolve();
  expect(got).toEqual(['first', 'second']);
  places.end(false);
  places.end(false);
  await Promise.resolve();
  expect(got).toEqual(['first', 'second', 'failing']);
});
