import { describe, expect, test } from 'bun:test';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { Log } from '../log.ts';
import { attemptStart, START_ATTEMPTS_MAX } from './start-attempts.ts';

/** Fails `failures` times with `message`, then opens. */
function scene(failures: number, message = 'away') {
  const lines: { attempt: number; reason: string }[] = [];
  const pauses: number[] = [];
  let tries = 0;
  const log = { warn: (fields: { attempt: number; reason: string }) => lines.push(fields) } as unknown as Log;
  const open = async (): Promise<string> => {
    tries += 1;
    if (tries <= failures) throw message === 'away' ? new StoreUnavailable(message) : new Error(message);
    return 'open';
  };
  const run = (): Promise<string> =>
    attemptStart({
      name: 'store',
      open,
      log,
      pause: async (durationMs) => void pauses.push(durationMs),
    });
  return { run, lines, pauses, tries: () => tries };
}

describe('starting while an engine is away', () => {
  test('goes on as soon as it is there, and says of each try why it failed', async () => {
    const { run, lines, pauses } = scene(3);
    expect(await run()).toBe('open');
    expect(lines.map(({ attempt, reason }) => [attempt, reason])).toEqual([
      [1, 'away'],
      [2, 'away'],
      [3, 'away'],
    ]);
    expect(pauses).toEqual([500, 1000, 2000]);
  });

  test('ends with the last failure after a bounded number of tries', async () => {
    const { run, lines, tries } = scene(1000);
    await expect(run()).rejects.toThrow('away');
    expect(tries()).toBe(START_ATTEMPTS_MAX);
    expect(lines).toHaveLength(START_ATTEMPTS_MAX - 1);
  });

  test('says that it waits while an engine says nothing', async () => {
    const told: string[] = [];
    const { promise, resolve } = Promise.withResolvers<string>();
    const log = {
      warn: (_: object, message: string) => {
        told.push(message);
        resolve('open');
      },
    } as unknown as Log;
    const opened = attemptStart({ name: 'store', open: () => promise, log, silentMsMax: 1 });
    expect(await opened).toBe('open');
    expect(told).toEqual(['an engine does not answer yet; waiting for it']);
  });

  test('ends at once if waiting cannot help', async () => {
    const { run, tries } = scene(1000, 'wrong password');
    await expect(run()).rejects.toThrow('wrong password');
    expect(tries()).toBe(1);
  });
});
