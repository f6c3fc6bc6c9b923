/** Requests that outlast a server that is away: what is tried again, how long, and what is said meanwhile. */
import { describe, expect, test } from 'bun:test';
import { type Clock, sleep } from '../../deadline.ts';
import { CasError, type CasErrorDetails } from '../../errors.ts';
import { FakeClock } from '../../test/fake-clock-fixture.ts';
import { AdaptiveLimit } from './adaptive-limit.ts';
import { PatientRequests } from './patient-requests.ts';
import { SILENT_PROGRESS } from './progress.ts';

const PATIENCE_MS = 60_000;

function failure(details: Partial<CasErrorDetails>): CasError {
  return new CasError('planted', { code: 'CONNECTION_FAILED', requestOperation: 'leaseNode', ...details });
}

function open<C extends Clock = FakeClock>(
  options: { signal?: AbortSignal; clock?: C; attemptsMax?: number } = {},
) {
  const clock = (options.clock ?? new FakeClock()) as C;
  const limit = new AdaptiveLimit({ start: 8, max: 8 });
  const causes: string[] = [];
  const waiting = new Set<string>();
  let counted = 0;
  let stoppedMs = 0;
  const progress = {
    ...SILENT_PROGRESS,
    count: ({ requests = 0 }) => {
      counted += requests;
    },
    waitFor: (cause: string) => {
      causes.push(cause);
      waiting.add(cause);
      return () => void waiting.delete(cause);
    },
    stoppedMs: () => stoppedMs,
  };
  const requests = new PatientRequests({
    clock,
    random: () => 0.5,
    limit,
    patienceMs: PATIENCE_MS,
    attemptsMax: options.attemptsMax,
    progress,
    signal: options.signal,
  });
  const stop = (ms: number): void => {
    stoppedMs += ms;
  };
  return { clock, limit, causes, waiting, requests, counted: () => counted, stop };
}

/** Throws the given errors in turn, then answers. */
function failing(...errors: Error[]): () => Promise<string> {
  return async () => {
    const error = errors.shift();
    if (error !== undefined) throw error;
    return 'answered';
  };
}

describe('PatientRequests', () => {
  test('try again what may pass, say why, and count when it is answered', async () => {
    const { requests, causes, waiting, counted, limit } = open();
    const errors = [
      failure({}),
      failure({ code: 'TIMED_OUT' }),
      failure({ code: 'SERVICE_UNAVAILABLE', status: 503 }),
    ];
    expect(await requests.send('a lease', true, failing(...errors))).toBe('answered');
    expect(counted()).toBe(4);
    expect(causes).toContain('no answer yet to a lease');
    expect(causes).toContain('planted (TIMED_OUT); trying again');
    expect(waiting.size).toBe(0);
    expect(limit.limit).toBeLessThan(8);
  });

  test('do not try again what would fail again', async () => {
    const { requests, clock, counted } = open();
    const error = failure({ code: 'invalid_token', status: 401 });
    expect(await requests.send('a lease', true, failing(error)).catch((reason: unknown) => reason)).toBe(
      error,
    );
    expect(clock.waits).toEqual([]);
    expect(counted()).toBe(1);
  });

  test('give up when nothing was answered for as long as patience lasts, and begin anew with each answer', async () => {
    const { requests, clock } = open();
    const startedAt = clock.now();
    const away = async (): Promise<never> => {
      throw failure({});
    };
    expect(await requests.send('a lease', true, away).catch((reason: CasError) => reason.code)).toBe(
      'CONNECTION_FAILED',
    );
    expect(clock.now() - startedAt).toBeGreaterThan(PATIENCE_MS);
    expect(clock.now() - startedAt).toBeLessThan(2 * PATIENCE_MS);
    const other = open();
    for (let round = 0; round < 5; round += 1) {
      const errors = Array.from({ length: 8 }, () => failure({}));
      expect(await other.requests.send('a lease', true, failing(...errors))).toBe('answered');
    }
    expect(other.clock.waits.reduce((total, ms) => total + ms, 0)).toBeGreaterThan(PATIENCE_MS);
  });

  test('patience is for the server: time in which nothing was asked uses none up', async () => {
    const { requests, clock } = open();
    await requests.send('a lease', true, failing());
    await sleep(clock, 2 * PATIENCE_MS, undefined);
    expect(await requests.send('a lease', true, failing(failure({})))).toBe('answered');
  });

  test('patience is for the server: time in which the process was stopped uses none up', async () => {
    const { requests, clock, stop } = open();
    const away = async (): Promise<never> => {
      await sleep(clock, 2 * PATIENCE_MS, undefined);
      stop(2 * PATIENCE_MS);
      throw failure({ code: 'TIMED_OUT' });
    };
    const tries = [away, failing()];
    expect(await requests.send('a lease', true, () => (tries.shift() as () => Promise<string>)())).toBe(
      'answered',
    );
  });

  test('no more tries than asked for', async () => {
    const { requests, causes } = open({ attemptsMax: 3 });
    const errors = Array.from({ length: 4 }, () => failure({}));
    expect(await requests.send('a lease', true, failing(...errors)).catch(String)).toContain('planted');
    expect(causes.filter((cause) => cause.startsWith('no answer'))).toHaveLength(3);
  });

  test('all wait when the server asks one to', async () => {
    const waits: number[] = [];
    // Stands still: who comes while another waits finds the whole wait still ahead.
    const clock: Clock = {
      now: () => 1_800_000_000_000,
      startTimer: (ms, onFire) => {
        waits.push(ms);
        const timer = setTimeout(onFire, 0);
        return () => clearTimeout(timer);
      },
    };
    const { requests, causes } = open({ clock });
    const busy = failure({ code: 'RESOURCE_EXHAUSTED', status: 429, retryAfterMs: 7_000 });
    const first = requests.send('a lease', true, failing(busy));
    await Promise.resolve();
    await Promise.resolve();
    await Promise.all([first, requests.send('an upload', false, failing())]);
    expect(causes).toContain('the server asked to wait: planted (RESOURCE_EXHAUSTED); trying again');
    expect(waits.filter((ms) => ms >= 7_000).length).toBeGreaterThanOrEqual(2);
  });

  test('end with the reason of the signal', async () => {
    const stop = new AbortController();
    const { requests } = open({ signal: stop.signal });
    const reason = new Error('stopped');
    const asked = requests.send('a lease', true, async () => {
      stop.abort(reason);
      throw failure({});
    });
    expect(await asked.catch((error: unknown) => error)).toBe(reason);
  });
});
