/** The clocks, timers and network of authorization, so that tests can replace them. */

export interface AuthWorld {
  /** wall clock, ms since the epoch, for the times in tokens */
  now(): number;
  /** monotonic clock, ms, for the age of copies: a change of the wall clock must not make them younger */
  monotonicNow(): number;
  /** Runs `callback` once after `delayMs`, without keeping the process alive; the result cancels it. */
  schedule(callback: () => void, delayMs: number): () => void;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
}

export const REAL_AUTH_WORLD: AuthWorld = {
  now: () => Date.now(),
  monotonicNow: () => performance.now(),
  schedule: (callback, delayMs) => {
    const timer = setTimeout(callback, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  fetch: (url, init) => fetch(url, init),
};
