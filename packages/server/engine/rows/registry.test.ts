/** Two processes change one registry concurrently; the rest is in the suite that both engines run. */
import { expect, test } from 'bun:test';
import { RowsRegistry } from './registry.ts';
import { runNow } from './work.ts';

/** A registry whose version moves on `changes` times, each time between two statements of a reading. */
function changingRegistry(changes: number) {
  let [version, left] = [1, changes];
  return new RowsRegistry({
    ...{ words: { readVersion: 'version', now: '0' }, Failure: Error, close: () => undefined },
    read: (work) =>
      runNow(work, (sql) => {
        if (sql === 'version') return [{ version }];
        if (!sql.includes('FROM revocations')) return [];
        if (left > 0) version += 1;
        left -= 1;
        return [];
      }),
    transact: () => {
      throw new Error('not called');
    },
  });
}

test('what another process changes during a reading is read again, and only so often', () => {
  expect(changingRegistry(3).readAll()).toEqual([]);
  expect(() => changingRegistry(Number.POSITIVE_INFINITY).readAll()).toThrow('changes too fast');
});
