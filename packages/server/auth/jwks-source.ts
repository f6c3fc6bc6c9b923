/** Sources of an App's verification keys: text in the registry, or a URL (docs/api.md, Capabilities). */
import { JWKS_STALE_MS_MAX } from '@holdfast/protocol';
import { registryUnavailable } from './auth-errors.ts';
import {
  JWKS_BYTES_MAX,
  JWKS_FETCH_MS_MAX,
  JWKS_FRESH_MS_MAX,
  JWKS_IN_USE_MS,
  JWKS_REFRESH_MS,
  JWKS_RETRY_MS,
} from './auth-limits.ts';
import type { AuthWorld } from './auth-world.ts';
import { type KeySet, parseKeySet } from './key-set.ts';

export interface KeySource {
  /**
   * Returns the keys themselves, not a promise, when a copy may be used; otherwise fetches them first. Throws or rejects with
   * ApiError `registry_unavailable` (row 5). Returns the same object while the keys are the same.
   */
  read(): KeySet | Promise<KeySet>;
  close(): void;
}

/** Keys that were copied into the registry. */
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
 * Keys behind a URL. While in use a timer fetches them again `JWKS_REFRESH_MS` after the last fetch began, so that a
 * request with a usable copy never waits. A copy older than `JWKS_FRESH_MS_MAX` serves only while fetching fails, and no
 * longer than `JWKS_STALE_MS_MAX`.
 */
export class UrlKeySource implements KeySource {
  readonly #url: string;
  readonly #world: AuthWorld;
  #copy: Copy | undefined;
  /** the latest fetch that ended, if it failed */
  #failure: { readonly at: number; readonly error: unknown } | undefined;
  #usedAt = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(url: string, world: AuthWorld) {
    this.#url = url;
    this.#world = world;
  }

  read(): KeySet | Promise<KeySet> {
    const now = this.#world.monotonicNow();
    this.#usedAt = now;
    const usable = this.#findUsable(now);
    if (usable === undefined) return this.#readAfterFetch(now);
    // The timer stops when the keys are not used for a while.
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
    // An issuer that is away is asked once per `JWKS_RETRY_MS`, however many requests come.
    if (!hasJustFailed || this.#fetching !== undefined) await this.#fetchOnce();
    const usable = this.#findUsable(this.#world.monotonicNow());
    if (usable !== undefined) return usable;
    throw registryUnavailable(
      "the key set of the capability's issuer cannot be fetched; try again shortly",
      this.#failure?.error,
    );
  }

  /** Joins the fetch under way, or begins one. Never rejects: the outcome is in `#copy` and `#failure`. */
  #fetchOnce(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
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
      this.#failure = { at: this.#world.monotonicNow(), error };
      this.#schedule(JWKS_RETRY_MS);
    }
  }

  #schedule(delayMs: number): void {
    if (this.#isClosed || this.#world.monotonicNow() - this.#usedAt > JWKS_IN_USE_MS) return;
    this.#cancelTimer = this.#world.schedule(
      () => {
        this.#cancelTimer = undefined;
        if (!this.#isClosed) void this.#fetchOnce();
      },
      Math.max(0, delayMs),
    );
  }
}

/**
 * GETs the document within `JWKS_FETCH_MS_MAX` and `JWKS_BYTES_MAX`. Rejects on anything but a plain 200: a redirect
 * could lead to a host that the operator never named.
 */
async function fetchKeySetBytes(url: string, world: AuthWorld): Promise<Uint8Array> {
  const controller = new AbortController();
  const timedOut = Promise.withResolvers<never>();
  const cancel = world.schedule(() => {
    const error = new Error(`no complete key set within ${JWKS_FETCH_MS_MAX} ms`);
    timedOut.reject(error);
    controller.abort(error);
  }, JWKS_FETCH_MS_MAX);
  try {
    return await Promise.race([readKeySetBytes(url, world, controller.signal), timedOut.promise]);
  } finally {
    cancel();
    // Cancels a body that is too long or not complete yet.
    controller.abort();
  }
}

async function readKeySetBytes(url: string, world: AuthWorld, signal: AbortSignal): Promise<Uint8Array> {
  const response = await world.fetch(url, {
    redirect: 'manual',
    signal,
    headers: { accept: 'application/jwk-set+json, application/json' },
    cache: 'no-store',
    credentials: 'omit',
  });
  if (response.status !== 200) throw new Error(`the key set was answered with status ${response.status}`);
  if (response.body === null) throw new Error('the key set was answered without a body');
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body) {
    length += chunk.length;
    if (length > JWKS_BYTES_MAX) throw new Error(`the key set is longer than ${JWKS_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
