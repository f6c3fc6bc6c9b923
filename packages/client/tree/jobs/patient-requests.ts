/**
 * Requests of a long job. A request that failed for a reason that may pass is sent again, as long as the job's patience lasts. When
 * the server asks for a wait, all requests wait. The reporter always knows what the job waits for. Requests are counted when they
 * are answered, so that attempts alone do not look like progress.
 */
import { type Clock, sleep, systemClock } from '../../deadline.ts';
import { CasError } from '../../errors.ts';
import { planRetry, RETRY_POLICY_DEFAULT } from '../../retry.ts';
import type { AdaptiveLimit } from './adaptive-limit.ts';
import type { ProgressReporter } from './progress.ts';

/** Requests at once: to begin with, and at most unless told otherwise. */
export const PARALLEL_START = 6;
export const PARALLEL_MAX_DEFAULT = 32;
/** A server that stores puts what arrives together on disk together: the more at once, the fewer waits for the disk. */
export const PUSH_PARALLEL_MAX_DEFAULT = 64;
/** How long no request may succeed before the job fails. */
const PATIENCE_MS_DEFAULT = 5 * 60_000;

export interface PatientRequestsOptions {
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  /** Told how the server bears the requests; left out where one is sent at a time. */
  readonly limit?: AdaptiveLimit | undefined;
  /** How long no request at all may succeed before the job gives up, ms; 5 minutes when left out. */
  readonly patienceMs?: number | undefined;
  /** Tries of one request, at most; as many as patience allows when left out. */
  readonly attemptsMax?: number | undefined;
  readonly progress: ProgressReporter;
  readonly signal?: AbortSignal | undefined;
}

/** One request of a job, tried again as those of a push are. Throws the last CasError, or the signal's reason. */
export function requestPatiently<T>(
  what: string,
  request: () => Promise<T>,
  options: Pick<PatientRequestsOptions, 'progress' | 'signal' | 'patienceMs'>,
): Promise<T> {
  return new PatientRequests(options).send(what, false, request);
}

export class PatientRequests {
  readonly #options: PatientRequestsOptions;
  readonly #clock: Clock;
  /** in time that the process ran, as all that patience is measured by */
  #succeededAt: number;
  #openCount = 0;
  #pausedUntil = 0;
  /** what the server said when it asked to wait */
  #pauseReason = '';

  constructor(options: PatientRequestsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#succeededAt = this.#ranUntil();
  }

  /** Sends until answered; throws the last CasError or the signal's reason. `what`: "no answer yet to …". `measured`: it sets the limit. */
  async send<T>(what: string, measured: boolean, request: () => Promise<T>): Promise<T> {
    // The patience is for the server: time in which the job asked nothing does not count.
    if (this.#openCount === 0) this.#succeededAt = this.#ranUntil();
    this.#openCount += 1;
    try {
      return await this.#sendUntilAnswered(what, measured, request);
    } finally {
      this.#openCount -= 1;
    }
  }

  async #sendUntilAnswered<T>(what: string, measured: boolean, request: () => Promise<T>): Promise<T> {
    const { limit, progress, signal } = this.#options;
    const clock = this.#clock;
    const begunAt = this.#ranUntil();
    for (let attempt = 1; ; attempt += 1) {
      await this.#pause();
      const sentAt = this.#ranUntil();
      const answered = progress.waitFor(`no answer yet to ${what}`);
      try {
        const result = await request();
        this.#succeededAt = this.#ranUntil();
        if (measured) limit?.onAnswer(this.#succeededAt - sentAt);
        progress.count({ requests: attempt });
        return result;
      } catch (error) {
        signal?.throwIfAborted();
        const delayMs = this.#planRetry(attempt, error, begunAt);
        if (delayMs === undefined) {
          progress.count({ requests: attempt });
          throw error;
        }
        limit?.onOverload();
        const isDone = progress.waitFor(`${describe(error)}; trying again`);
        await sleep(clock, delayMs, signal).finally(isDone);
      } finally {
        answered();
      }
    }
  }

  #planRetry(attempt: number, error: unknown, begunAt: number): number | undefined {
    const { random = Math.random, patienceMs = PATIENCE_MS_DEFAULT, attemptsMax } = this.#options;
    const now = this.#ranUntil();
    if (now - this.#succeededAt > patienceMs) return undefined;
    // Others may succeed all the while: a server that never answers this one would keep the job forever.
    if (now - begunAt > 6 * patienceMs) return undefined;
    const policy = {
      ...RETRY_POLICY_DEFAULT,
      attemptsMax: attemptsMax ?? Number.POSITIVE_INFINITY,
      delayMsMax: 10_000,
      retryAfterMsMax: patienceMs,
    };
    const delayMs = planRetry(attempt, error, policy, random);
    // A wait that the server asks of one request holds for all: it would refuse the others too.
    const retryAfterMs = error instanceof CasError ? error.retryAfterMs : undefined;
    if (delayMs !== undefined && retryAfterMs !== undefined) {
      this.#pausedUntil = Math.max(this.#pausedUntil, this.#clock.now() + retryAfterMs);
      this.#pauseReason = describe(error);
    }
    return delayMs;
  }

  /** Now, less the time in which the process did not run: that the server did not answer then is not its fault. */
  #ranUntil(): number {
    return this.#clock.now() - (this.#options.progress.stoppedMs?.() ?? 0);
  }

  async #pause(): Promise<void> {
    const { progress, signal } = this.#options;
    signal?.throwIfAborted();
    const waitMs = this.#pausedUntil - this.#clock.now();
    if (waitMs <= 0) return;
    const isDone = progress.waitFor(`the server asked to wait: ${this.#pauseReason}; trying again`);
    await sleep(this.#clock, waitMs, signal).finally(isDone);
  }
}

function describe(error: unknown): string {
  if (!(error instanceof CasError)) return String(error);
  return `${error.reason} (${error.code})`;
}
