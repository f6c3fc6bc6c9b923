/** Sources of an App's verification keys: text in the registry, or a URL (docs/api.md, Capabilities). */

import { JWKS_STALE_MS_MAX } from '@holdfast/protocol';
import { JWKS_FAILURES } from '../metrics/server-metrics.ts';
import { findAddress, isLinkLocal } from './app-registration.ts';
import {
  JWKS_ADDRESSES_MAX,
  JWKS_BYTES_MAX,
  JWKS_FETCH_MS_MAX,
  JWKS_FRESH_MS_MAX,
  JWKS_REFRESH_MS,
  JWKS_RETRY_MS,
  registryUnavailable,
} from './auth-limits.ts';
import type { AuthWorld } from './auth-world.ts';
import { type KeySet, KeySetPlaces, parseKeySet } from './key-set.ts';

export interface KeySource {
  /** The keys at once if a copy may be used, the same object while they are the same. Throws or rejects `registry_unavailable`. */
  read(): KeySet | Promise<KeySet>;
  close(): void;
}

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

/** GETs the document within its limits. Rejects on any status but 200: a redirect could lead to a host that the operator never named. */
export async function fetchKeySetBytes(url: string, world: AuthWorld): Promise<Uint8Array> {
  const controller = new AbortController();
  const timedOut = Promise.withResolvers<never>();
  const cancel = world.schedule(() => {
    const error = new Error(`no complete key set within ${JWKS_FETCH_MS_MAX} ms`);
    timedOut.reject(error);
    controller.abort(error);
  }, JWKS_FETCH_MS_MAX);
  try {
    return await Promise.race([fetchBytes(new URL(url), world, controller.signal), timedOut.promise]);
  } finally {
    cancel();
    // Cancels a body that is too long or not complete yet.
    controller.abort();
  }
}

async function fetchBytes(url: URL, world: AuthWorld, signal: AbortSignal): Promise<Uint8Array> {
  const addresses = await readAddresses(url, world);
  signal.throwIfAborted();
  return await readBody(await fetchFromAny(url, addresses, world, signal));
}

/** Every address of the host. Rejects if one of them is refused. */
async function readAddresses(url: URL, world: AuthWorld): Promise<readonly string[]> {
  const own = findAddress(url);
  const addresses = own === undefined ? await world.resolve(url.hostname) : [own];
  if (addresses.length === 0) throw new Error('the host of the key set has no address');
  const refused = addresses.find(isLinkLocal);
  if (refused !== undefined) {
    throw new Error(
      `the host of the key set is at ${refused}, a link-local or metadata address: none is asked for keys`,
    );
  }
  return addresses;
}

/** Connects to the checked addresses. A second lookup of the name could return an address that was not checked. */
async function fetchFromAny(
  url: URL,
  addresses: readonly string[],
  world: AuthWorld,
  signal: AbortSignal,
): Promise<Response> {
  let failure: unknown;
  for (const address of addresses.slice(0, JWKS_ADDRESSES_MAX)) {
    try {
      return await world.fetch(atAddress(url, address), requestInit(url, signal));
    } catch (error) {
      failure = error;
      signal.throwIfAborted();
    }
  }
  throw failure;
}

function atAddress(url: URL, address: string): string {
  const at = new URL(url);
  at.hostname = address.includes(':') ? `[${address}]` : address;
  return at.href;
}

function requestInit(url: URL, signal: AbortSignal): BunFetchRequestInit {
  return {
    redirect: 'manual',
    signal,
    headers: {
      host: url.host,
      accept: 'application/jwk-set+json, application/json',
      'accept-encoding': 'identity',
    },
    cache: 'no-store',
    credentials: 'omit',
    // A few compressed bytes can expand to any number of bytes.
    decompress: false,
    // The certificate must match the name, not the address.
    ...(findAddress(url) === undefined && url.protocol === 'https:'
      ? { tls: { serverName: url.hostname } }
      : {}),
  };
}

async function readBody(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) throw new Error(`the key set was answered with status ${response.status}`);
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    throw new Error('the key set was answered with a Content-Encoding: serve it as it is');
  }
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
