/** ContentStore on S3. Clients upload by presigned URLs. It validates an object once, and reads only while its ETag is the same. */

import type { Hash } from '@holdfast/protocol';
import { createdAtOf } from '../../core/generation.ts';
import type { ContentRow, Generation, Space } from '../../core/model.ts';
import {
  CONTENT_PIECE_BYTES,
  type ContentStore,
  type DeletedObjects,
  type InspectedObject,
  type ReadAids,
  type StoredNumber,
  type StoredObject,
} from '../../core/ports.ts';
import { ContentDamaged, type StoreUnavailable } from '../../core/store-failure.ts';
import { findStrays, STRAY_AGE_MS } from '../../core/stray-watch.ts';
import type { FindKnown, WalkKeeper } from '../../core/upkeep-ports.ts';
import type { ContentUploads, NodeLimits } from '../../core/upload-ports.ts';
import {
  isPacked,
  type PackedNode,
  provePackedNode,
  readPackedNode,
  verifyPackedNode,
} from '../packed-object.ts';
import { deleteKeys } from './batch-delete.ts';
import { makeBucketEpoch, makeLastBackup } from './bucket-number.ts';
import type { S3ContentStoreParts } from './content-store-parts.ts';
import { findEtagOf } from './etag.ts';
import { RequestRefused } from './failure.ts';
import type { S3Limits } from './limits.ts';
import { listKeys } from './list-keys.ts';
import type { StoreMarker } from './marker.ts';
import { findBytes, inspectObject } from './object-inspection.ts';
import type { ObjectKeys } from './object-key.ts';
import { readProven } from './object-proof.ts';
import { gatherRange, type RecordedObject, readRange } from './object-range.ts';
import { S3PackStore } from './packs.ts';
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

/** Walks over all keys of the bucket, one page per step, and deletes strays: late uploads, repeated ones, leftovers of probes. */
class StrayWalk {
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

export class S3ContentStore implements ContentStore {
  readonly upload: ContentUploads;
  readonly epoch: StoredNumber;
  readonly lastBackup: StoredNumber;
  readonly packs: S3PackStore;
  readonly fillsScratch = false;
  readonly #parts: S3ContentStoreParts;
  readonly #walk: StrayWalk;
  /** inspections under way, by key */
  readonly #inspections = new Map<string, Promise<InspectedObject>>();

  constructor(parts: S3ContentStoreParts) {
    this.#parts = parts;
    this.#walk = new StrayWalk(parts);
    this.packs = new S3PackStore(parts);
    this.epoch = makeBucketEpoch(parts.client, parts.keys);
    this.lastBackup = makeLastBackup(parts.client, parts.keys);
    this.upload = {
      kind: 'direct',
      signUpload: (space, generation, life, mediaType) => {
        const aheadMs = parts.goesByStore ? parts.client.storeAheadMs : 0;
        return parts.uploadUrls.sign(parts.keys.keyIn(space, generation), { ...life, aheadMs }, mediaType);
      },
      findBytes: (space, generation) =>
        findBytes(parts.client, { space, key: parts.keys.keyIn(space, generation) }),
    };
  }

  /** If the store does not answer, no object can be deleted either, so its clock does not matter then. */
  async readClockSkew(): Promise<number | undefined> {
    const { client, keys, limits } = this.#parts;
    const known = client.findClockSkew(limits.clockMs);
    if (known !== undefined) return known;
    const call = { method: 'HEAD', key: keys.marker, doing: 'reading the clock of the store' } as const;
    return client.send(call, async () => client.findClockSkew(limits.clockMs)).catch(() => undefined);
  }

  /** Callers share one inspection. An object that it finds stays: keys are written once. If it finds none, a later caller looks again. */
  async inspect(
    space: Space,
    generation: Generation,
    hash: Hash,
    limits: NodeLimits,
  ): Promise<InspectedObject> {
    const key = this.#parts.keys.keyIn(space, generation);
    const earlier = await this.#inspections.get(key);
    if (earlier?.found) return earlier;
    const shared = this.#inspections.get(key);
    if (shared !== undefined) return shared;
    const begun = inspectObject(this.#parts, { key, space }, hash, limits).finally(() =>
      this.#inspections.delete(key),
    );
    this.#inspections.set(key, begun);
    return begun;
  }

  async read(object: StoredObject, start: number, end: number, aids: ReadAids = {}): Promise<Uint8Array> {
    if (isPacked(object)) return readPackedNode(this.packs, object, start, end);
    if (start === end) {
      await this.prove(object, start, end);
      return new Uint8Array(0);
    }
    const recorded = this.#recordedObject(object);
    const range = { start, end };
    return readProven(this.#parts, recorded, () =>
      gatherRange(this.#parts.client, recorded, range, aids.signal),
    );
  }

  async getVersion(object: StoredObject): Promise<string> {
    if (isPacked(object)) return this.packs.getVersion(object.space, recordOf(object));
    await this.prove(object, 0, 0);
    return this.#recordedObject(object).etag;
  }

  /** The ETag that the object has now is the proof of all its bytes: one of them is asked for. */
  async prove(object: StoredObject, start: number, end: number): Promise<void> {
    if (isPacked(object)) return provePackedNode(this.packs, object);
    const recorded = this.#recordedObject(object);
    // Nothing cannot be asked for; the byte before it can.
    const from = start === end ? Math.max(0, start - 1) : start;
    const range = { start: from, end: from + 1 };
    await readProven(this.#parts, recorded, () =>
      readRange(this.#parts.client, recorded, range, (body) => body.readAll(1)),
    );
  }

  async verify(object: StoredObject, hash: Hash): Promise<void> {
    if (isPacked(object)) return verifyPackedNode(this.packs, object, hash);
    const recorded = this.#recordedObject(object);
    // Bytes may also be damaged on the way: only a digest that is wrong twice proves damage.
    if ((await this.#digest(recorded)) === hash || (await this.#digest(recorded)) === hash) return;
    throw new ContentDamaged(`the object of generation ${object.generation} does not match its digest`);
  }

  verifyInline(content: ContentRow): void {
    throw new ContentDamaged(
      `generation ${content.generation} has inline bytes, which this store never makes`,
    );
  }

  async delete(space: Space, generations: readonly Generation[]): Promise<DeletedObjects> {
    const byKey = new Map(
      generations.map((generation) => [this.#parts.keys.keyIn(space, generation), generation]),
    );
    try {
      // In a wrong bucket every key is absent, and absent keys count as deleted.
      await this.#parts.marker.assertRecentlyHealthy();
    } catch (failure) {
      return { deleted: new Set(), failure };
    }
    const { client, limits } = this.#parts;
    const { deleted, refused, failure } = await deleteKeys(client, limits, [...byKey.keys()], space);
    const gone = [...deleted].map((key) => byKey.get(key) as Generation);
    return { deleted: new Set(gone), failure: failure ?? refused };
  }

  async sweep(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    await this.#walk.step(findKnown, now, walk);
  }

  async close(): Promise<void> {
    this.#parts.client.close();
  }

  async #digest(recorded: RecordedObject): Promise<Hash> {
    const hasher = new Bun.CryptoHasher('sha256');
    const canonicalSize = recorded.bytesMax;
    for (let start = 0; start < canonicalSize; start += CONTENT_PIECE_BYTES) {
      const end = Math.min(start + CONTENT_PIECE_BYTES, canonicalSize);
      hasher.update(
        await readProven(this.#parts, recorded, () =>
          gatherRange(this.#parts.client, recorded, { start, end }),
        ),
      );
    }
    return hasher.digest('hex');
  }

  #recordedObject(object: StoredObject): RecordedObject {
    const etag = findEtagOf(object.integrity);
    if (etag === undefined) {
      throw new ContentDamaged(`the integrity record of generation ${object.generation} is no ETag`);
    }
    const { space, generation, canonicalSize } = object;
    const key = this.#parts.keys.keyIn(space, generation);
    return { space, generation, key, etag, bytesMin: canonicalSize, bytesMax: canonicalSize };
  }
}

const recordOf = ({ packed, integrity }: PackedNode) => ({ place: packed, integrity });
