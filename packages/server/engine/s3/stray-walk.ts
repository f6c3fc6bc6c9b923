/** Walks over all keys of the bucket, one page per step, and deletes strays: late uploads, repeated ones, leftovers of probes. */

import { createdAtOf } from '../../core/generation.ts';
import type { StoreUnavailable } from '../../core/store-failure.ts';
import { findStrays, STRAY_AGE_MS } from '../../core/stray-watch.ts';
import type { FindKnown, WalkKeeper } from '../../core/upkeep-ports.ts';
import { deleteKeys } from './batch-delete.ts';
import { RequestRefused } from './failure.ts';
import type { S3Limits } from './limits.ts';
import { listKeys } from './list-keys.ts';
import type { StoreMarker } from './marker.ts';
import type { ObjectKeys } from './object-key.ts';
import type { S3Client } from './s3-client.ts';

interface StrayWalkOptions {
  readonly client: S3Client;
  readonly keys: ObjectKeys;
  readonly marker: StoreMarker;
  readonly limits: S3Limits;
  /** the longest life of an upload URL */
  readonly uploadTtlMs: number;
}

/** The place of the walk: one of the prefixes, and how far in it. */
interface Place {
  readonly isProbes: boolean;
  readonly next: string | undefined;
}

const START: Place = { isProbes: true, next: undefined };

export class StrayWalk {
  readonly #options: StrayWalkOptions;
  #place = START;
  /** the place that another process left was looked for */
  #isResumed = false;
  #steppedAt = Number.NEGATIVE_INFINITY;
  #startedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StrayWalkOptions) {
    this.#options = options;
  }

  /** Walks one page, if it is time for one. `now`: ms, by the clock that named the generations. */
  async step(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    const { limits } = this.#options;
    if (walk !== undefined && !this.#isResumed) {
      this.#place = parsePlace(await walk.readPlace());
      this.#isResumed = true;
    }
    const at = performance.now();
    const isStart = this.#place === START;
    if (at - this.#steppedAt < limits.listIntervalMs) return;
    if (isStart && at - this.#startedAt < limits.walkIntervalMs) return;
    this.#steppedAt = at;
    if (isStart) this.#startedAt = at;
    const place = this.#place;
    try {
      const page = await this.#list(place);
      const refused = await this.#deleteStrays(page.keys, walk?.findKept ?? findKnown, now);
      this.#place = followerOf(place, page.next);
      await walk?.notePlace(this.#place === START ? undefined : JSON.stringify(this.#place));
      if (refused !== undefined) throw refused;
    } catch (error) {
      // The store may forget a place, because its tokens may expire. That must not end all walks.
      if (error instanceof RequestRefused && place.next !== undefined) {
        this.#place = START;
        await walk?.notePlace(undefined);
      }
      throw error;
    }
  }

  #list({ isProbes, next }: Place): ReturnType<typeof listKeys> {
    const { client, keys, limits } = this.#options;
    return listKeys(client, limits, isProbes ? keys.probesPrefix : keys.nodesPrefix, next);
  }

  /** Rejects if the page has to be walked again. Resolves with the failure if only single keys stay: the walk continues. */
  async #deleteStrays(
    listed: readonly string[],
    findKnown: FindKnown,
    now: number,
  ): Promise<StoreUnavailable | undefined> {
    const { client, keys, marker, limits, uploadTtlMs } = this.#options;
    // A URL may still be valid, and the store takes an object by it at any time.
    const oldAt = now - STRAY_AGE_MS - uploadTtlMs;
    const probes = listed.filter((key) => {
      const name = keys.findProbe(key);
      return name !== undefined && createdAtOf(name) <= oldAt;
    });
    const objects = listed.flatMap((key) => keys.findObject(key) ?? []);
    const strays = (await findStrays(objects, oldAt, findKnown)).map((object) => keys.keyOf(object));
    if (probes.length + strays.length === 0) return undefined;
    // In the bucket of another deployment every object looks like a stray.
    await marker.assertHealthy();
    const { refused, failure } = await deleteKeys(client, limits, [...probes, ...strays]);
    if (failure !== undefined) throw failure;
    return refused;
  }
}

/** A text that is no place begins a new walk. */
function parsePlace(text: string | undefined): Place {
  if (text === undefined) return START;
  try {
    const { isProbes, next } = JSON.parse(text) as Partial<Place>;
    if (typeof isProbes === 'boolean' && (next === undefined || typeof next === 'string')) {
      return { isProbes, next };
    }
  } catch {
    // Another version wrote it.
  }
  return START;
}

function followerOf(place: Place, next: string | undefined): Place {
  if (next !== undefined) return { isProbes: place.isProbes, next };
  return place.isProbes ? { isProbes: false, next: undefined } : START;
}
