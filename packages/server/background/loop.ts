/** Repeats a step of background work until stopped. A failure is logged once and the step is retried. */
import { StoreUnavailable } from '../core/store-failure.ts';
import { type Log, reasonsOf } from '../log.ts';
import { BACKGROUND_FAILURES } from '../metrics/server-metrics.ts';

export interface BackgroundLoop {
  /** Resolves when the current step has ended, or after a limit if an engine does not answer. No step starts afterwards. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  readonly name: string;
  readonly log: Log;
  /** Does one bounded step. Resolves with the ms until the next one. */
  readonly step: () => Promise<number>;
  /** ms from a failed step to the next */
  readonly retryMs: number;
}

export function startLoop({ name, log, step, retryMs }: LoopOptions): BackgroundLoop {
  let isStopped = false;
  let lastFailure: string | undefined;
  let timer: Timer | undefined;
  let underWay: Promise<void> = Promise.resolve();

  const runOnce = async (): Promise<number> => {
    try {
      const delayMs = await step();
      if (lastFailure !== undefined) log.info({ loop: name }, 'background work goes on');
      lastFailure = undefined;
      return delayMs;
    } catch (error) {
      // After a stop the step may fail because its store is closed.
      if (isStopped) return retryMs;
      BACKGROUND_FAILURES.add({ loop: name });
      const failure = error instanceof Error ? error.message : String(error);
      if (failure !== lastFailure) {
        const why = error instanceof StoreUnavailable ? { reasons: reasonsOf(error) } : { err: error };
        log.error({ loop: name, ...why }, 'background work failed; it will be tried again');
      }
      lastFailure = failure;
      return retryMs;
    }
  };
  const schedule = (delayMs: number): void => {
    if (isStopped) return;
    // Delays vary by a fifth, so that processes that started together do not work in lockstep.
    const jitter = 0.8 + 0.4 * Math.random();
    timer = setTimeout(() => {
      underWay = runOnce().then(schedule);
    }, delayMs * jitter);
    timer.unref();
  };

  schedule(retryMs);
  return {
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      // The engine of the last step may not answer.
      await Promise.race([underWay, Bun.sleep(2_000)]);
    },
  };
}
