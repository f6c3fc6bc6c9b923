import { afterEach, describe, expect, test } from 'bun:test';
import type { Hash, LeaseResponse } from '@holdfast/protocol';
import { MINUTE_MS } from '@holdfast/protocol';
import { CasError } from './errors.ts';
import {
  type LeaseKeeper,
  type LeaseKeeperEvent,
  type LeaseKeeperOptions,
  startLeaseKeeper,
} from './lease-keeper.ts';
import { ManualClock } from './test/manual-clock-fixture.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);

/** A server that only leases: what each hash answers, and when each was asked. */
class LeasingServer {
  readonly clock = new ManualClock();
  readonly asked: { readonly hash: Hash; readonly at: number; readonly leaseDurationMs: number }[] = [];
  readonly answers = new Map<Hash, () => Promise<LeaseResponse>>();
  running = 0;
  mostRunning = 0;

  async leaseNode(
    hash: Hash,
    { leaseDurationMs }: { leaseDurationMs: number },
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<LeaseResponse> {
    this.asked.push({ hash, at: this.clock.now(), leaseDurationMs });
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    try {
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
      return await (this.answers.get(hash)?.() ?? this.ready(hash));
    } finally {
      this.running -= 1;
    }
  }

  async ready(hash: Hash): Promise<LeaseResponse> {
    return { hash, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 };
  }

  times(hash: Hash): number[] {
    return this.asked.filter((call) => call.hash === hash).map(({ at }) => at);
  }
}

let keepers: LeaseKeeper[] = [];
afterEach(async () => {
  await Promise.all(keepers.map((keeper) => keeper.stop()));
  keepers = [];
});

function start(more: Partial<LeaseKeeperOptions> = {}): {
  server: LeasingServer;
  clock: ManualClock;
  keeper: LeaseKeeper;
  events: LeaseKeeperEvent[];
  told: () => string[];
} {
  const server = new LeasingServer();
  const events: LeaseKeeperEvent[] = [];
  const keeper = startLeaseKeeper({
    client: server,
    clock: server.clock,
    random: () => 0.5,
    leaseDurationMs: 10 * MINUTE_MS,
    onEvent: (event) => events.push(event),
    ...more,
  });
  keepers.push(keeper);
  return { server, clock: server.clock, keeper, events, told: () => events.map(({ type }) => type) };
}

function busyFor(retryAfterMs: number): CasError {
  const details = { code: 'SERVICE_UNAVAILABLE', requestOperation: 'leaseNode', retryAfterMs } as const;
  return new CasError('planted', details);
}

describe('renewing', () => {
  test('leases at once, then half way through, again and again', async () => {
    const { server, clock, keeper, told } = start();
    const startedAt = clock.now();
    expect(keeper.safeUntil).toBeUndefined();
    keeper.add(A);
    await clock.advance(0);
    expect(keeper.safeUntil).toBe(startedAt + 10 * MINUTE_MS);
    await clock.advance(60 * MINUTE_MS);
    const gaps = server.times(A).map((at, index, all) => at - (all[index - 1] ?? startedAt));
    expect(gaps[0]).toBe(0);
    for (const gap of gaps.slice(1)) expect(gap).toBe(5 * MINUTE_MS);
    expect(gaps.length).toBe(13);
    expect(keeper.safeUntil).toBeGreaterThan(clock.now() + 4 * MINUTE_MS);
    expect(new Set(told())).toEqual(new Set(['renewed']));
  });

  test('jitter spreads the renewals between 40 and 60 % of the lease', async () => {
    let turn = 0;
    const { server, clock, keeper } = start({ random: () => (turn++ % 100) / 100, concurrency: 1000 });
    const startedAt = clock.now();
    const hashes = Array.from({ length: 100 }, (_, index) => index.toString(16).padStart(64, '0'));
    for (const hash of hashes) keeper.add(hash);
    await clock.advance(7 * MINUTE_MS);
    const second = hashes.map((hash) => (server.times(hash)[1] as number) - startedAt);
    expect(Math.min(...second)).toBeGreaterThanOrEqual(4 * MINUTE_MS);
    expect(Math.max(...second)).toBeLessThanOrEqual(6 * MINUTE_MS + 5_000);
    expect(new Set(second).size).toBeGreaterThan(15);
  });

  test('what is leased already waits for its turn; a later end of it counts', async () => {
    const { server, clock, keeper } = start();
    const safeUntil = clock.now() + 20 * MINUTE_MS;
    keeper.add(A, { safeUntil });
    await clock.advance(9 * MINUTE_MS);
    expect(keeper.safeUntil).toBe(safeUntil);
    expect(server.asked).toEqual([]);
    keeper.add(A, { safeUntil: safeUntil + 60 * MINUTE_MS });
    await clock.advance(20 * MINUTE_MS);
    expect(server.asked).toEqual([]);
    expect(keeper.safeUntil).toBe(safeUntil + 60 * MINUTE_MS);
    keeper.add(B, { safeUntil: clock.now() - 1 });
    await clock.advance(0);
    expect(server.times(B).length).toBe(1);
  });

  test('the duration is clamped as the service does', async () => {
    for (const [asked, sent] of [
      [1, 60_000],
      [1e9, 86_400_000],
      [90_000.5, 90_000],
    ]) {
      const { server, clock, keeper } = start({ leaseDurationMs: asked });
      keeper.add(A);
      await clock.advance(0);
      expect(server.asked[0]?.leaseDurationMs).toBe(sent as number);
      expect(keeper.safeUntil).toBe(clock.now() + (sent as number));
    }
  });

  test('never more at once than told, and all get their turn', async () => {
    const { server, clock, keeper } = start({ concurrency: 3 });
    const hashes = Array.from({ length: 20 }, (_, index) => index.toString(16).padStart(64, '0'));
    for (const hash of hashes) keeper.add(hash);
    await keeper.renewAll();
    expect(server.mostRunning).toBe(3);
    expect(new Set(server.asked.map(({ hash }) => hash)).size).toBe(20);
    expect(keeper.safeUntil).toBe(clock.now() + 10 * MINUTE_MS);
  });

  test('removed roots are renewed no more and count no more', async () => {
    const { server, clock, keeper } = start();
    keeper.add(A);
    server.answers.set(B, async () => ({ hash: B, state: 'validated_awaiting_children', childHashes: [A] }));
    keeper.add(B);
    await clock.advance(0);
    expect(keeper.safeUntil).toBeUndefined();
    keeper.remove(B);
    expect(keeper.safeUntil).toBeDefined();
    keeper.remove(A);
    expect(keeper.safeUntil).toBeUndefined();
    await clock.advance(60 * MINUTE_MS);
    expect(server.asked.length).toBe(2);
  });

  test('a root removed while its renewal runs tells nothing', async () => {
    const { clock, keeper, events } = start();
    keeper.add(A);
    keeper.remove(A);
    await clock.advance(0);
    expect(events).toEqual([]);
  });
});

describe('trouble', () => {
  test('a failure is told and tried again, later and later, until it works', async () => {
    const { server, clock, keeper, events } = start();
    keeper.add(A);
    await clock.advance(0);
    const error = new CasError('planted', { code: 'CONNECTION_FAILED', requestOperation: 'leaseNode' });
    server.answers.set(A, () => Promise.reject(error));
    await clock.advance(8 * MINUTE_MS);
    const failures = events.filter((event) => event.type === 'failed');
    expect(failures.length).toBeGreaterThanOrEqual(4);
    expect(failures.length).toBeLessThanOrEqual(12);
    expect(failures[0]?.error).toBe(error);
    expect(keeper.safeUntil).toBeDefined();
    await clock.advance(3 * MINUTE_MS);
    expect(keeper.safeUntil).toBeUndefined();
    const lapses = events.filter((event) => event.type === 'lapsed');
    expect(lapses.length).toBe(1);
    server.answers.delete(A);
    await clock.advance(2 * MINUTE_MS);
    expect(events.at(-1)?.type).toBe('renewed');
    expect(keeper.safeUntil).toBeGreaterThan(clock.now());
  });

  test('a lease that ends while its renewal is on its way is told before the new one', async () => {
    const { server, clock, keeper, events, told } = start({ leaseDurationMs: MINUTE_MS });
    await clock.advance(2_000);
    keeper.add(A);
    await clock.advance(0);
    const safeUntil = keeper.safeUntil as number;
    let answer = (): void => undefined;
    server.answers.set(A, () => {
      return new Promise((resolve) => {
        answer = () => resolve({ hash: A, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 });
      });
    });
    await clock.advance(60_500);
    expect(told()).toEqual(['renewed']);
    answer();
    await clock.advance(0);
    expect(told()).toEqual(['renewed', 'lapsed', 'renewed']);
    expect(events[1]).toEqual({ type: 'lapsed', hash: A, lapsedAt: safeUntil });
  });

  test('a server that asks for patience gets it', async () => {
    const { server, clock, keeper } = start();
    server.answers.set(A, () => Promise.reject(busyFor(45_000)));
    keeper.add(A);
    await clock.advance(44_000);
    expect(server.asked.length).toBe(1);
    await clock.advance(10_000);
    expect(server.asked.length).toBe(2);
  });

  test('a server that asks for more than that is asked again while the lease lasts', async () => {
    const { server, clock, keeper } = start();
    keeper.add(A);
    await clock.advance(0);
    server.answers.set(A, () => Promise.reject(busyFor(1e12)));
    await clock.advance(5 * MINUTE_MS + 5_000);
    server.answers.delete(A);
    await clock.advance(3 * MINUTE_MS);
    expect(keeper.safeUntil).toBeGreaterThan(clock.now() + 6 * MINUTE_MS);
  });

  test('a root that is no longer ready is told and left until it is added again', async () => {
    const { server, clock, keeper, events } = start();
    keeper.add(A);
    keeper.add(B);
    await clock.advance(0);
    server.answers.set(A, async () => ({
      hash: A,
      state: 'awaiting_upload',
      upload: { method: 'PUT', url: 'http://x.test/', expiresAt: 1, headers: {} },
    }));
    await clock.advance(30 * MINUTE_MS);
    const about = events.filter((event) => 'hash' in event && event.hash === A);
    expect(about.map(({ type }) => type)).toEqual(['renewed', 'lost']);
    expect(about[1]).toMatchObject({ state: 'awaiting_upload' });
    expect(server.times(A).length).toBe(2);
    expect(keeper.safeUntil).toBeUndefined();
    await keeper.renewAll();
    expect(server.times(A).length).toBe(2);
    server.answers.delete(A);
    keeper.add(A);
    await clock.advance(0);
    expect(keeper.safeUntil).toBeDefined();
  });

  test('what is no hash is refused', () => {
    const { keeper } = start();
    for (const wrong of ['', 'A'.repeat(64), 'a'.repeat(63)]) {
      expect(() => keeper.add(wrong)).toThrow(CasError);
    }
  });
});

describe('sleep and changed clocks', () => {
  test('after a short sleep everything is renewed at once, and nothing lapsed', async () => {
    const { server, clock, keeper, events } = start();
    keeper.add(A);
    keeper.add(B);
    await clock.advance(MINUTE_MS);
    const beforeAt = server.asked.length;
    clock.jump(4 * MINUTE_MS);
    const wokeAt = clock.now();
    await clock.advance(5_000);
    expect(events.filter(({ type }) => type === 'clock-jumped')).toEqual([
      { type: 'clock-jumped', jumpMs: 4 * MINUTE_MS },
    ]);
    expect(
      server.asked
        .slice(beforeAt)
        .map(({ hash }) => hash)
        .toSorted(),
    ).toEqual([A, B]);
    expect(events.some(({ type }) => type === 'lapsed')).toBe(false);
    expect(keeper.safeUntil).toBeGreaterThanOrEqual(wokeAt + 10 * MINUTE_MS);
  });

  test('after a long sleep it tells what lapsed, when, and what became of it', async () => {
    const { server, clock, keeper, events } = start();
    keeper.add(A);
    await clock.advance(0);
    const safeUntil = keeper.safeUntil as number;
    keeper.add(B, { safeUntil: safeUntil + 120 * MINUTE_MS });
    server.answers.set(A, async () => ({ hash: A, state: 'validated_awaiting_children', childHashes: [B] }));
    clock.jump(60 * MINUTE_MS);
    expect(keeper.safeUntil).toBeUndefined();
    await clock.advance(5_000);
    const about = (hash: Hash): LeaseKeeperEvent[] =>
      events.filter((event) => 'hash' in event && event.hash === hash);
    expect(about(A).slice(1)).toEqual([
      { type: 'lapsed', hash: A, lapsedAt: safeUntil },
      { type: 'lost', hash: A, state: 'validated_awaiting_children' },
    ]);
    expect(about(B).map(({ type }) => type)).toEqual(['renewed']);
  });

  test('a request that slept on its way does not count for longer than it may', async () => {
    const { server, clock, keeper, events, told } = start();
    const sentAt = clock.now();
    let answer = (): void => undefined;
    server.answers.set(A, () => {
      server.answers.delete(A);
      return new Promise((resolve) => {
        answer = () => resolve({ hash: A, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 });
      });
    });
    keeper.add(A);
    await clock.advance(0);
    clock.jump(60 * MINUTE_MS);
    answer();
    await clock.advance(10_000);
    expect(keeper.safeUntil).toBeGreaterThanOrEqual(clock.now() + 9 * MINUTE_MS);
    expect(server.asked.length).toBeGreaterThanOrEqual(2);
    expect(events[0]).toEqual({ type: 'renewed', hash: A, safeUntil: sentAt + 10 * MINUTE_MS });
    expect(told()).toContain('clock-jumped');
  });

  test('a clock set back moves what is safe back with it', async () => {
    const { clock, keeper, told } = start({ random: () => 0.99 });
    keeper.add(A);
    await clock.advance(0);
    const before = keeper.safeUntil as number;
    clock.jump(-60 * MINUTE_MS);
    await clock.advance(5_000);
    expect(told()).toContain('clock-jumped');
    expect(keeper.safeUntil).toBeLessThan(before - 50 * MINUTE_MS);
    expect(keeper.safeUntil).toBeGreaterThanOrEqual(clock.now() + 9 * MINUTE_MS);
  });

  test('and stays moved when the renewal fails', async () => {
    const { server, clock, keeper } = start();
    keeper.add(A);
    await clock.advance(0);
    const before = keeper.safeUntil as number;
    server.answers.set(A, () => Promise.reject(new Error('planted')));
    clock.jump(-3 * MINUTE_MS);
    await clock.advance(5_000);
    expect(keeper.safeUntil).toBe(before - 3 * MINUTE_MS);
  });

  test('a machine that is a little late has not slept', async () => {
    const { clock, keeper, told } = start();
    keeper.add(A);
    await clock.advance(0);
    clock.jump(15_000);
    await clock.advance(10_000);
    expect(told()).toEqual(['renewed']);
  });
});

describe('stopping', () => {
  test('ends timers and requests; nothing is told afterwards', async () => {
    const { server, clock, keeper, events } = start();
    let signalled: AbortSignal | undefined;
    const slow = startLeaseKeeper({
      client: {
        leaseNode: (_hash, _body, options) => {
          signalled = options?.signal;
          return new Promise((_resolve, reject) => {
            options?.signal?.addEventListener('abort', () => reject(options.signal?.reason));
          });
        },
      },
      clock,
      onEvent: (event) => events.push(event),
    });
    keeper.add(A);
    slow.add(B);
    await clock.advance(0);
    events.length = 0;
    await Promise.all([keeper.stop(), slow.stop()]);
    expect(signalled?.aborted).toBe(true);
    expect(clock.runningTimers).toBe(0);
    await clock.advance(60 * MINUTE_MS);
    expect(server.asked.length).toBe(1);
    expect(events).toEqual([]);
    expect(() => keeper.add(A)).toThrow('stopped');
    await keeper.renewAll();
  });
});
