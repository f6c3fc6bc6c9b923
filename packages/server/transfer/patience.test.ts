import { describe, expect, test } from 'bun:test';
import { mapSome } from '../core/batches.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { type Patience, patiently } from './copy-run.ts';

function makePatience(pausesMs: readonly number[], signal = new AbortController().signal) {
  const retries: [string, number][] = [];
  const patience: Patience = {
    pausesMs,
    signal,
    onRetry: (error, pauseMs) => retries.push([error.message, pauseMs]),
  };
  return { patience, retries };
}

describe('patience', () => {
  test('tries again while the store is away, and says so', async () => {
    const { patience, retries } = makePatience([1, 2, 3]);
    const done = await patiently(patience, async (attempt) => {
      if (attempt < 2) throw new StoreUnavailable(`away ${attempt}`);
      return attempt;
    });
    expect(done).toBe(2);
    expect(retries).toEqual([
      ['away 0', 1],
      ['away 1', 2],
    ]);
  });

  test('ends: the last failure stands', async () => {
    const { patience, retries } = makePatience([1, 1]);
    const step = patiently(patience, async (attempt) => {
      throw new StoreUnavailable(`away ${attempt}`);
    });
    await expect(step).rejects.toThrow('away 2');
    expect(retries).toHaveLength(2);
  });

  test('is only for stores that are away', async () => {
    const { patience, retries } = makePatience([1]);
    const step = patiently(patience, async () => {
      throw new Error('wrong');
    });
    await expect(step).rejects.toThrow('wrong');
    expect(retries).toEqual([]);
  });

  test('ends when told to, even in the middle of a pause', async () => {
    const controller = new AbortController();
    const { patience } = makePatience([600_000], controller.signal);
    const step = patiently(patience, async () => {
      setTimeout(() => controller.abort(new Error('told')), 1);
      throw new StoreUnavailable('away');
    });
    await expect(step).rejects.toThrow('told');
  });
});

describe('mapSome', () => {
  test('keeps the order and the bound', async () => {
    let inFlight = 0;
    let most = 0;
    const mapped = await mapSome([5, 1, 4, 2, 3, 0], 3, async (item) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      await Bun.sleep(item);
      inFlight -= 1;
      return item * 10;
    });
    expect(mapped).toEqual([50, 10, 40, 20, 30, 0]);
    expect(most).toBe(3);
  });

  test('begins nothing after a failure, and waits for what is under way', async () => {
    const begun: number[] = [];
    let isSlowDone = false;
    const mapping = mapSome([0, 1, 2, 3], 2, async (item) => {
      begun.push(item);
      if (item === 0) throw new Error('first');
      await Bun.sleep(20);
      isSlowDone = true;
    });
    await expect(mapping).rejects.toThrow('first');
    expect(begun).toEqual([0, 1]);
    expect(isSlowDone).toBe(true);
  });
});
