/** Hosts that hang keep turns for long, and never hold up those that answer. */
import { expect, test } from 'bun:test';
import { JWKS_FETCHES_MAX } from './auth-limits.ts';
import { KeySetTurns } from './key-set-turns.ts';

test('those that failed get half of the turns at most, the others all that is free', () => {
  const turns = new KeySetTurns();
  const failing = Array.from({ length: JWKS_FETCHES_MAX }, () => turns.begin(true));
  expect(failing.filter((turn) => turn === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
  const sound = Array.from({ length: JWKS_FETCHES_MAX }, () => turns.begin(false));
  expect(sound.filter((turn) => turn === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
});

test('whoever waits gets the turn that ends, first in first out, the sound ones before', async () => {
  const turns = new KeySetTurns();
  for (let count = 0; count < JWKS_FETCHES_MAX; count += 1) turns.begin(count % 2 === 0);
  const got: string[] = [];
  const wait = (name: string, hasFailed: boolean): void => {
    void turns.begin(hasFailed)?.then(() => got.push(name));
  };
  wait('failing', true);
  wait('first', false);
  wait('second', false);
  turns.end(true);
  turns.end(false);
  await Promise.resolve();
  expect(got).toEqual(['first', 'second']);
  turns.end(false);
  turns.end(false);
  await Promise.resolve();
  expect(got).toEqual(['first', 'second', 'failing']);
});
