/** When to try again and how long to wait first. Pure. */
import { CasError, isConnectionBreak } from './errors.ts';

export interface RetryPolicy {
  /** Attempts in all, the first included. */
  readonly attemptsMax: number;
  /** The first wait is random between 0 and this; each further one may be twice as long. */
  readonly delayMsBase: number;
  /** No wait of our own choosing is longer. */
  readonly delayMsMax: number;
  /** A server that asks (`Retry-After`) for more is not waited for: the error goes to the caller, who can decide. */
  readonly retryAfterMsMax: number;
}

export const RETRY_POLICY_DEFAULT: RetryPolicy = {
  attemptsMax: 4,
  delayMsBase: 200,
  delayMsMax: 5_000,
  retryAfterMsMax: 30_000,
};

const STATUSES_TO_RETRY: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

/** Full jitter: random between 0 and an exponentially growing bound, so that clients that failed together part ways. */
export function planBackoff(attempt: number, policy: RetryPolicy, random: () => number): number {
  return random() * Math.min(policy.delayMsMax, policy.delayMsBase * 2 ** (attempt - 1));
}

/** The ms before attempt `attempt + 1`; undefined: `error` is final, as every 4xx but a 429 that says when. */
export function planRetry(
  attempt: number,
  error: unknown,
  policy: RetryPolicy,
  random: () => number,
): number | undefined {
  if (attempt >= policy.attemptsMax || !(error instanceof CasError)) return undefined;
  const mayPass =
    isConnectionBreak(error) || (error.status !== undefined && STATUSES_TO_RETRY.has(error.status));
  // Without a time to wait, waiting does not help: a quota is used up.
  if (!mayPass || (error.status === 429 && error.retryAfterMs === undefined)) return undefined;
  // A client that is asked to come back at once, again and again, would do nothing else.
  if (!error.retryAfterMs) return planBackoff(attempt, policy, random);
  if (error.retryAfterMs > policy.retryAfterMsMax) return undefined;
  // Never earlier than asked; spread a little, because everyone else was asked to come back at the same time.
  return error.retryAfterMs + random() * policy.delayMsBase;
}

/** `Retry-After` as ms from `now` (RFC 9110: seconds or a date); undefined when absent or unreadable. */
export function parseRetryAfter(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  const value = header.trim();
  // A larger number asks for as long a wait as there is: it is not absent.
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1_000, Number.MAX_SAFE_INTEGER);
  // Only the form with a weekday: Date.parse reads many other things as dates.
  const at = /^[A-Z][a-z]{2}, /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
