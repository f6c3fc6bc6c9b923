/** Sources of an App's verification keys: text in the registry, or a URL (docs/api.md, Capabilities). */
import { JWKS_STALE_MS_MAX } from '@holdfast/protocol';
import { JWKS_FAILURES } from '../metrics/server-metrics.ts';
import { registryUnavailable } from './auth-errors.ts';
import { JWKS_FRESH_MS_MAX, JWKS_REFRESH_MS, JWKS_RETRY_MS } from './auth-limits.ts';
import type { AuthWorld } from './auth-world.ts';
import { type KeySet, parseKeySet } from './key-set.ts';
import { fetchKeySetBytes } from './key-set-fetch.ts';
import { KeySetPlaces } from './key-set-places.ts';

export interface KeySource {
  /** The keys at once if a copy may be used, the same object while they are the same. Throws or rejects `registry_unavailable`. */
  read(): KeySet | Promise<KeySet>;
  close(): void;
}

/** Keys stored in the registry. */
export class StaticKeySource implements KeySource {
  readonly #jwks: string;
  #keySet: KeySet | undefined;

  constructor(jwks: string) {
    this.#jwks = jwks;
  }

  read(): KeySet {
    try {
      this.#keySet ??= parseKeySet(this.#jwks);
    } catch (error) {
      throw registryUnavailable("the App's registered key set cannot be read; register it again", error);
    }
    return this.#keySet;
  }

  close(): void {}
}

interface Copy {
  readonly keySet: KeySet;
  /** monotonic ms at the start of the fetch */
  readonly fetchedAt: number;
}

/**
 * Keys behind a URL. While the keys are in use, a timer fetches them `JWKS_REFRESH_MS` after the last fetch began, so that a request
 * with a usable copy never waits. A copy older than `JWKS_FRESH_MS_MAX` is used only while fetching fails, and never beyond
 * `JWKS_STALE_MS_MAX`.
 */
export class UrlKeySource implements KeySource {
  readonly #url: string;
  readonly #world: AuthWorld;
  readonly #places: KeySetPlaces;
  #copy: Copy | undefined;
  /** the last fetch that ended, if it failed */
  #failure: { readonly at: number; readonly error: unknown } | undefined;
  #usedAt = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(url: string, world: AuthWorld, places = new KeySetPlaces()) {
    this.#url = url;
    this.#world = world;
    this.#places = places;
  }

  read(): KeySet | Promise<KeySet> {
    const now = this.#world.monotonicNow();
    this.#usedAt = now;
    const usable = this.#findUsable(now);
    if (usable === undefined) return this.#readAfterFetch(now);
    // The timer has stopped if the keys were not used for a while.
    if (this.#fetching === undefined && this.#cancelTimer === undefined) this.#schedule(0);
    return usable;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #findUsable(now: number): KeySet | undefined {
    const copy = this.#copy;
    if (copy === undefined) return undefined;
    const ageMs = now - copy.fetchedAt;
    if (ageMs <= JWKS_FRESH_MS_MAX) return copy.keySet;
    return this.#failure !== undefined && ageMs <= JWKS_STALE_MS_MAX ? copy.keySet : undefined;
  }

  async #readAfterFetch(now: number): Promise<KeySet> {
    const hasJustFailed = this.#failure !== undefined && now - this.#failure.at < JWKS_RETRY_MS;
    // After a failure the issuer is asked once per `JWKS_RETRY_MS`, for any number of requests.
    if (!hasJustFailed || this.#fetching !== undefined) await this.#fetchOnce();
    const usable = this.#findUsable(this.#world.monotonicNow());
    if (usable !== undefined) return usable;
    throw registryUnavailable(
      "the key set of the capability's issuer cannot be fetched; try again shortly",
      this.#failure === undefined
        ? undefined
        : new Error(nameKeySet(this.#url), { cause: this.#failure.error }),
    );
  }

  /** Joins the current fetch or starts one. Never rejects: the outcome is in `#copy` and `#failure`. */
  #fetchOnce(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    const hasFailed = this.#failure !== undefined;
    const place = this.#places.begin(hasFailed);
    if (place !== undefined) await place;
    try {
      await this.#fetchInTurn();
    } finally {
      this.#places.end(hasFailed);
    }
  }

  async #fetchInTurn(): Promise<void> {
    const startedAt = this.#world.monotonicNow();
    try {
      const keySet = parseKeySet(await fetchKeySetBytes(this.#url, this.#world));
      const previous = this.#copy?.keySet;
      this.#copy = {
        keySet: previous?.identity === keySet.identity ? previous : keySet,
        fetchedAt: startedAt,
      };
      this.#failure = undefined;
      this.#schedule(startedAt + JWKS_REFRESH_MS - this.#world.monotonicNow());
    } catch (error) {
      JWKS_FAILURES.add();
      this.#failure = { at: this.#world.monotonicNow(), error };
      this.#schedule(JWKS_RETRY_MS);
    }
  }

  #schedule(delayMs: number): void {
    // Fetching of a key set stops if no request needed it for this long.
    if (this.#isClosed || this.#world.monotonicNow() - this.#usedAt > 60_000) return;
    this.#cancelTimer = this.#world.schedule(
      () => {
        this.#cancelTimer = undefined;
        if (!this.#isClosed) void this.#fetchOnce();
      },
      Math.max(0, delayMs),
    );
  }
}

/** The key set's name in the log. User names and queries in a URL may be secret, so they are left out. */
function nameKeySet(url: string): string {
  const { origin, pathname } = new URL(url);
  return `the key set at ${origin}${pathname}`;
}
