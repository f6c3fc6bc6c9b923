/** System calls that fail lose nothing that was acknowledged, and leave nothing half there. */
import { expect, test } from 'bun:test';
import { attachFaults, ensureStrace } from '../../test/support/strace.ts';
import { runCommandFaults } from './command-faults.ts';
import { runServeFaults } from './serve-faults.ts';

/** Any other will do: the failures say which faults there were. */
const SEED = 27;
const FAULTS = 100;
/** Faults that no call meets are none. */
const ROUNDS_MAX = 200;
/** A machine that is busy does fewer. */
const WORK_MS_MAX = 200_000;
const TEST_MS_MAX = 900_000;

const canTrace = await ensureStrace();

test('a process that strace cannot attach to is not worked with as if calls failed', async () => {
  if (!canTrace) return;
  const nobody = 2 ** 22 + 1;
  await expect(attachFaults(nobody, '/dev/null', ['fsync:error=EIO'])).rejects.toThrow(/may not attach/);
});

test.each([
  ['serve', runServeFaults],
  ['backup, restore, push, pull', runCommandFaults],
] as const)(
  'system calls that fail: %s',
  async (_name, work) => {
    if (!canTrace) return;
    let rounds = 0;
    const endsAt = performance.now() + WORK_MS_MAX;
    const { injected, found } = await work(SEED, (done) => {
      rounds += 1;
      return done < FAULTS && rounds <= ROUNDS_MAX && (rounds === 1 || performance.now() < endsAt);
    });
    expect(found).toEqual([]);
    expect(injected).toBeGreaterThan(0);
  },
  TEST_MS_MAX,
);
