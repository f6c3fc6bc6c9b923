/** The clocks, timers and network of authorization, so that tests can replace them. */
import { lookup } from 'node:dns/promises';

export interface AuthWorld {
  /** wall clock, ms since the epoch, for the times in tokens */
  now(): number;
  /** monotonic clock, ms, for the age of copies: a change of the wall clock must not make them younger */
  monotonicNow(): number;
  /** Runs `callback` once after `delayMs`, without keeping the process alive; the result cancels it. */
  schedule(callback: () => void, delayMs: number): () => void;
  /** The addresses of a host name, as the system knows them. */
  readonly resolve: (hostname: string) => Promise<readonly string[]>;
  readonly fetch: (url: string, init: BunFetchRequestInit) => Promise<Response>;
}

export const REAL_AUTH_WORLD: AuthWorld = {
  now: Date.now,
  monotonicNow: performance.now.bind(performance),
  schedule: (callback, delayMs) => {
    const timer = setTimeout(callback, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  resolve: async (hostname) => {
    const found = await lookup(hostname, { all: true });
    return found.map(({ address }) => address);
  },
  fetch: (url, init) => fetch(url, init),
};
