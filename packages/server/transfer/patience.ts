/** Retries a step while a store is unavailable, so that a copy of many hours survives a restart of either side. */
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
