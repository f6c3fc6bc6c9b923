/** Tries a step again while a store is away, so that a copy of many hours survives a restart of either side. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreUnavailable } from '../core/store-failure.ts';

export interface Patience {
  /** ms before each further try; after the last one the failure is thrown */
  readonly pausesMs: readonly number[];
  readonly signal: AbortSignal;
  onRetry(error: StoreUnavailable, pauseMs: number): void;
}

export const PAUSES_MS: readonly number[] = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000];

/** `attempt` counts from 0. Rejects with the signal's reason once it fires. */
export async function patiently<T>(patience: Patience, step: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    patience.signal.throwIfAborted();
    try {
      return await step(attempt);
    } catch (error) {
      const pauseMs = patience.pausesMs[attempt];
      if (!(error instanceof StoreUnavailable) || error.isDamage || pauseMs === undefined) throw error;
      patience.onRetry(error, pauseMs);
      await sleep(pauseMs, undefined, { signal: patience.signal }).catch(() => undefined);
    }
  }
}

/** Results in order, at most `inFlightMax` steps at once. After a failure no step begins, and those under way are awaited. */
export async function mapSome<T, R>(
  items: readonly T[],
  inFlightMax: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async (): Promise<void> => {
    while (failure === undefined && next < items.length) {
      const index = next++;
      try {
        results[index] = await map(items[index] as T);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(inFlightMax, items.length) }, work));
  if (failure !== undefined) throw failure.error;
  return results;
}
