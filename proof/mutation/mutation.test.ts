/** A few guards of those that `npm run proof` takes out. */
import { expect, test } from 'bun:test';
import { listGuards } from './guards.ts';
import { openMutants } from './take-out.ts';

/** Their own tests are quick. */
const FILE = 'packages/server/core/read/byte-range.ts';
const GUARDS = 3;
const TEST_MS_MAX = 600_000;

test(
  'the tests notice a guard that is taken out',
  async () => {
    const guards = listGuards();
    expect(guards.length).toBeGreaterThan(300);
    const mutants = openMutants(guards);
    try {
      for (const guard of guards.filter(({ file }) => file === FILE).slice(0, GUARDS))
        expect([guard.id, await mutants.whatNotices(guard)]).toEqual([guard.id, 'test']);
    } finally {
      mutants.remove();
    }
  },
  TEST_MS_MAX,
);
