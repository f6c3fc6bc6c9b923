/** Each repetition takes a token, each success gives back a tenth: in an outage the load grows by a tenth, not by a multiple. */
const TOKENS_MAX = 100;

export class RetryBudget {
  #tokens = TOKENS_MAX;

  noteSuccess(): void {
    this.#tokens = Math.min(TOKENS_MAX, this.#tokens + 0.1);
  }

  /** Whether a repetition may be sent. */
  take(): boolean {
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** Random ms before the `repetition`-th repetition (from 1), so that requests that failed together do not repeat together. */
export function pauseOf(
  repetition: number,
  limits: { readonly retryPauseMs: number; readonly retryPauseMsMax: number },
  random: () => number,
): number {
  return random() * Math.min(limits.retryPauseMsMax, limits.retryPauseMs * 2 ** (repetition - 1));
}
