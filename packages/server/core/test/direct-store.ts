/**
 * A content store that clients write to themselves, as they do with S3: it knows no records and no limits, only its keys and
 * the expiry signed into a URL. A PUT is judged when it begins and may land any time later; a deleted key can be written again
 * by a URL that is still good.
 */
import { bytesToHash, type Hash, SECOND_MS } from '@holdfast/protocol';
import {
  isPacked,
  isRecordIntact,
  makeRecordIntegrity,
  provePackedNode,
  readPackedNode,
  verifyPackedNode,
} from '../../engine/packed-object.ts';
import { tooLarge, UploadJudge } from '../lease/upload-judge.ts';
import type { Generation, ObjectKey, Space } from '../model.ts';
import type { PackedRecord, PackStore } from '../pack-ports.ts';
import type { ContentStore, DeletedObjects, StoredObject } from '../ports.ts';
import { sha256 } from '../signer.ts';
import { spaceKeyOf } from '../space-map.ts';
import { ContentDamaged, ContentLost } from '../store-failure.ts';
import { findStrays, STRAY_AGE_MS } from '../stray-watch.ts';
import type { FindKnown, WalkKeeper } from '../upkeep-ports.ts';
import type { NodeLimits, UploadUrlLife } from '../upload-ports.ts';

interface DirectObject {
  readonly key: ObjectKey;
  readonly bytes: Uint8Array;
}

/** What the store answers to a PUT. */
type PutStatus = 200 | 403 | 412;

export class DirectStore implements ContentStore {
  readonly fillsScratch = false;
  readonly upload = {
    kind: 'direct' as const,
    signUpload: async (space: Space, generation: Generation, life: UploadUrlLife) => {
      const expiresAt = Math.floor(life.expiresAt / SECOND_MS) * SECOND_MS;
      const url = `direct:${spaceKeyOf(space)}/${generation}/${expiresAt}`;
      return { url, headers: { 'if-none-match': '*' } };
    },
    findBytes: async (_space: Space, generation: Generation) => this.#objects.get(generation)?.bytes.length,
  };

  readonly packs: PackStore = {
    inspect: async (_space, generation, judge) => {
      const bytes = this.#objects.get(generation)?.bytes;
      if (bytes === undefined) return undefined;
      const read = async function* () {
        yield bytes;
      };
      return judge({ bytes: bytes.length, read, integrityOf: makeRecordIntegrity });
    },
    readRecord: async (_space, record) => this.#readRecord(record),
    readRecords: async (_space, records) => records.map((record) => this.#readRecord(record)),
    write: async (space, generation, pieces) => {
      const bytes = new Uint8Array(Buffer.concat(await Array.fromAsync(pieces)));
      this.#objects.set(generation, { key: { spaceKey: spaceKeyOf(space), generation }, bytes });
      const integrityFrom = (integrity: Uint8Array) => integrity;
      return { bytes: bytes.length, integrityFrom, integrityOf: makeRecordIntegrity };
    },
  };
  readonly #now: () => number;
  readonly #urlLifeMs: number;
  readonly #objects = new Map<Generation, DirectObject>();

  constructor(now: () => number, urlLifeMs: number) {
    this.#now = now;
    this.#urlLifeMs = urlLifeMs;
  }

  /** A store with the same objects, and a clock of its own. */
  copy(now: () => number): DirectStore {
    const copied = new DirectStore(now, this.#urlLifeMs);
    for (const [generation, object] of this.#objects) copied.#objects.set(generation, object);
    return copied;
  }

  get generations(): readonly Generation[] {
    return [...this.#objects.keys()].sort();
  }

  /** The client's PUT, whole at once. */
  put(url: string, bytes: Uint8Array): PutStatus {
    return this.beginPut(url)(bytes);
  }

  /** The client's PUT while its URL is good; the bytes land when the result is called. */
  beginPut(url: string): (bytes: Uint8Array) => PutStatus {
    const [spaceKey = '', generation = '', expiresAt] = url.slice('direct:'.length).split('/');
    if (Number(expiresAt) <= this.#now()) return () => 403;
    return (bytes) => {
      if (this.#objects.has(generation)) return 412;
      this.#objects.set(generation, { key: { spaceKey, generation }, bytes: bytes.slice() });
      return 200;
    };
  }

  async inspect(_space: Space, generation: Generation, hash: Hash, { nodeBytesMax }: NodeLimits) {
    const object = this.#objects.get(generation);
    if (object === undefined) return { found: false as const };
    const { bytes } = object;
    if (bytes.length > nodeBytesMax) return { found: true as const, evidence: tooLarge(nodeBytesMax) };
    const judge = new UploadJudge(hash);
    judge.push(bytes);
    return { found: true as const, evidence: judge.judge(() => sha256(bytes), false) };
  }

  async read(object: StoredObject, start: number, end: number): Promise<Uint8Array> {
    if (isPacked(object)) return readPackedNode(this.packs, object, start, end);
    return this.#prove(object).slice(start, end);
  }

  async getVersion(object: StoredObject): Promise<string> {
    if (object.packed !== undefined) return object.packed.pack;
    return Bun.hash(this.#prove(object)).toString();
  }

  async prove(object: StoredObject): Promise<void> {
    if (isPacked(object)) return provePackedNode(this.packs, object);
    this.#prove(object);
  }

  async verify(object: StoredObject, hash: Hash): Promise<void> {
    if (isPacked(object)) return verifyPackedNode(this.packs, object, hash);
    if (bytesToHash(sha256(this.#prove(object))) !== hash) throw new ContentDamaged('of another node');
  }

  verifyInline(): void {
    throw new ContentDamaged('nothing is kept as a row where clients write to the store');
  }

  async delete(_space: Space, generations: readonly Generation[]): Promise<DeletedObjects> {
    for (const generation of generations) this.#objects.delete(generation);
    return { deleted: new Set(generations), failure: undefined };
  }

  async sweep(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    const keys = [...this.#objects.values()].map(({ key }) => key);
    const strays = await findStrays(keys, now - STRAY_AGE_MS - this.#urlLifeMs, walk?.findKept ?? findKnown);
    for (const { generation } of strays) this.#objects.delete(generation);
  }

  async close(): Promise<void> {}

  #readRecord({ place, integrity }: PackedRecord): Uint8Array {
    const object = this.#objects.get(place.pack);
    if (object === undefined) throw new ContentLost(`there is no pack ${place.pack}`);
    const stored = object.bytes.slice(place.offset, place.offset + place.storedLength);
    if (!isRecordIntact(stored, integrity)) throw new ContentDamaged('other bytes');
    return stored;
  }

  #prove({ generation, integrity }: StoredObject): Uint8Array {
    const object = this.#objects.get(generation);
    if (object === undefined) throw new ContentLost(`there is no object ${generation}`);
    if (Buffer.compare(sha256(object.bytes), integrity) !== 0) throw new ContentDamaged('other bytes');
    return object.bytes;
  }
}
