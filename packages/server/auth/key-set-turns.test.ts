/** Hosts that hang keep turns for long, and never hold up those that answer. */
import { expect, test } from 'bun:test';
import { JWKS_FETCHES_MAX } from './auth-limits.ts';
import { KeySetTurns } from './key-set-turns.ts';

test('key sets that failed get at most half of the turns, the others any free turn', () => {
  const turns = new KeySetTurns();
  const failing = Array.from({ length: JWKS_FETCHES_MAX }, () => turns.begin(true));
  expect(failing.filter((turn) => turn === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
  const sound = Array.from({ length: JWKS_FETCHES_MAX }, () => turns.begin(false));
  expect(sound.filter((turn) => turn === undefined).length).toBe(JWKS_FETCHES_MAX / 2);
});

test('a turn that ends goes to the longest waiter, and key sets that have not failed come first', async () => {
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
