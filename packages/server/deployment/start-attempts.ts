/** Starts while an engine may be away: a bounded number of tries, each of them logged. */
import { StoreUnavailable } from '../core/store-failure.ts';
import type { Log } from '../log.ts';

export const START_ATTEMPTS_MAX = 6;

export interface StartAttempt<T> {
  /** the engine, in a log line */
  readonly name: string;
  readonly open: () => Promise<T>;
  readonly log: Log;
  readonly pause?: (durationMs: number) => Promise<void>;
  readonly silentMsMax?: number;
}

/** Retries while the engine is unavailable. Rejects with the last failure, or at once with one that waiting does not cure. */
export async function attemptStart<T>({
  name,
  open,
  log,
  pause = Bun.sleep,
  // An attempt that takes this long is reported before it ends, because an engine that hangs reports nothing.
  silentMsMax = 7000,
}: StartAttempt<T>): Promise<T> {
  const startedAt = performance.now();
  for (let attempt = 1; ; attempt += 1) {
    const timer = setTimeout(
      () => log.warn({ engine: name, attempt }, 'an engine does not answer yet; waiting for it'),
      silentMsMax,
    );
    try {
      return await open();
    } catch (error) {
      const pauseMs = Math.min(500 * 2 ** (attempt - 1), 5000);
      const isLate = performance.now() - startedAt + pauseMs > 30_000;
      if (!(error instanceof StoreUnavailable) || attempt === START_ATTEMPTS_MAX || isLate) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      log.warn({ engine: name, attempt, pauseMs, reason }, 'an engine cannot be used yet; trying again');
      clearTimeout(timer);
      await pause(pauseMs);
    } finally {
      clearTimeout(timer);
    }
  }
}
