/** What authorization needs from the world, so that tests can own time and network. */

export interface AuthWorld {
  /** wall clock, ms since the epoch: for the times in tokens */
  now(): number;
  /** ms that only grow: for the age of copies, which a changed wall clock must not make younger */
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
