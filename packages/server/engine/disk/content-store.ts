/** core/ports.ts ContentStore on local disk. Every byte is proven by its block's checksum before it leaves. */

import type { Hash } from '@holdfast/protocol';
import { isGeneration } from '../../core/generation.ts';
import { tooLarge, UploadJudge } from '../../core/lease/upload-judge.ts';
import type { ContentRow, Generation, Space } from '../../core/model.ts';
import type {
  ContentStore,
  DeletedObjects,
  InspectedObject,
  ReadAids,
  StoredObject,
} from '../../core/ports.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { findStrays, STRAY_AGE_MS } from '../../core/stray-watch.ts';
import type { FindKnown, WalkKeeper } from '../../core/upkeep-ports.ts';
import type { ContentUploads, NodeLimits } from '../../core/upload-ports.ts';
import { codeOf } from '../../error-code.ts';
import { guard } from '../local-failure.ts';
import {
  findCanonicalNow,
  isPacked,
  provePackedNode,
  readPackedNode,
  verifyPackedNode,
} from '../packed-object.ts';
import { BLOCK_BYTES, BlockIntegrity, BlockPool, IntegrityBuilder } from './block-integrity.ts';
import { type DurableNamesOptions, removeObject } from './durable-names.ts';
import type { Files, OpenFile } from './files.ts';
import { ANY_SPACE, ObjectLayout, readMarker } from './object-layout.ts';
import { ObjectReader } from './object-reader.ts';
import { PackFiles } from './pack-files.ts';
import type { ReceivingRegistry } from './receiving-registry.ts';
import { StagedFiles } from './staged-files.ts';
import { TurnFiles } from './turn-files.ts';
import { DiskUploadReceiver } from './upload-receiver.ts';

/** objects whose records one step looks for */
const OBJECTS_PER_STEP_MAX = 256;

interface StrayWalkOptions extends DurableNamesOptions {
  /** rejects unless the folder belongs to these rows: in another one every object looks like a stray */
  readonly assertHealthy: (generation: Generation) => Promise<void>;
}

/** Walks over all objects of the content folder in bounded steps, and deletes strays: crashes leave some between sealing and recording. */
class DiskStrayWalk {
  readonly #options: StrayWalkOptions;
  readonly #folders: readonly string[];
  #foldersListed: number;
  /** the place that another process left was looked for */
  #isResumed = false;
  #listed: readonly Generation[] = [];
  #startedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StrayWalkOptions) {
    this.#options = options;
    this.#folders = options.layout.shards();
    this.#foldersListed = this.#folders.length;
  }

  /** `now`: ms, by the clock that named the generations. A folder or an object that fails does not hold up the others. */
  async step(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    if (walk !== undefined && !this.#isResumed) {
      this.#isResumed = true;
      this.#resume(await walk.readPlace());
    }
    if (this.#isOver()) {
      // A walk begins an hour after the one before it began.
      if (Math.abs(now - this.#startedAt) < 3_600_000) return;
      this.#startedAt = now;
      this.#foldersListed = 0;
    }
    await this.#list();
    const page = this.#listed.slice(0, OBJECTS_PER_STEP_MAX);
    const keys = page.map((generation) => ({ spaceKey: ANY_SPACE, generation }));
    const strays = await findStrays(keys, now - STRAY_AGE_MS, walk?.findKept ?? findKnown);
    const [first] = strays;
    if (first !== undefined) await this.#options.assertHealthy(first.generation);
    this.#listed = this.#listed.slice(page.length);
    // A folder that was listed in part is listed again.
    if (this.#listed.length === 0)
      await walk?.notePlace(this.#isOver() ? undefined : String(this.#foldersListed));
    let failure: unknown;
    for (const { generation } of strays) {
      try {
        await removeObject(this.#options, generation);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  /** A text that is no place begins a new walk. */
  #resume(place: string | undefined): void {
    const folders = place === undefined ? Number.NaN : Number(place);
    if (Number.isInteger(folders) && folders > 0 && folders < this.#folders.length)
      this.#foldersListed = folders;
  }

  #isOver(): boolean {
    return this.#foldersListed === this.#folders.length && this.#listed.length === 0;
  }

  async #list(): Promise<void> {
    const last = this.#foldersListed + 16;
    while (this.#listed.length < OBJECTS_PER_STEP_MAX && this.#foldersListed < last) {
      const folder = this.#folders[this.#foldersListed];
      if (folder === undefined) return;
      this.#foldersListed += 1;
      const { files, layout } = this.#options;
      const names = await files.list(folder);
      const own = names.filter((name) => isGeneration(name) && layout.shardOf(name) === folder);
      this.#listed = [...this.#listed, ...own];
    }
  }
}

interface ContentStoreOptions {
  /** the content folder */
  readonly root: string;
  /** the id that the marker must hold; the rows keep it too */
  readonly storeId: string;
  readonly files: Files;
  readonly inlineBytesMax: number;
  /** closed with the store */
  readonly registry: ReceivingRegistry;
  /** whether the PUT of this generation was recorded as complete */
  readonly isFinished: (generation: Generation) => boolean;
  readonly onFatal: (error: Error) => void;
}

export class DiskContentStore implements ContentStore {
  readonly upload: Extract<ContentUploads, { kind: 'server' }>;
  readonly packs: PackFiles;
  readonly fillsScratch = true;
  readonly #files: Files;
  readonly #layout: ObjectLayout;
  readonly #storeId: string;
  readonly #pool = new BlockPool();
  readonly #registry: ReceivingRegistry;
  readonly #names: DurableNamesOptions;
  readonly #staged: StagedFiles;
  readonly #strays: DiskStrayWalk;

  constructor(options: ContentStoreOptions) {
    const { root, storeId, files, inlineBytesMax, registry, isFinished, onFatal } = options;
    this.#registry = registry;
    this.#files = files;
    this.#layout = new ObjectLayout(root);
    this.#storeId = storeId;
    this.#names = { files, layout: this.#layout, onFatal };
    this.#staged = new StagedFiles({ ...this.#names, isFinished });
    const assertHealthy = (generation: Generation) => this.#assertHealthy(generation);
    this.#strays = new DiskStrayWalk({ ...this.#names, assertHealthy });
    const receiver = new DiskUploadReceiver({
      staged: this.#staged,
      pool: this.#pool,
      registry,
      inlineBytesMax,
    });
    this.upload = { kind: 'server', receiver };
    this.packs = new PackFiles({
      staged: this.#staged,
      now: new TurnFiles((generation) => files.openNow(this.#layout.objectOf(generation))),
      find: (generation) => this.#find(generation),
    });
  }

  /** Call once, before serving, while no other process has the store open. */
  resolveInterrupted(): Promise<void> {
    return guard('cleaning up after a crash', async () => {
      await this.#staged.resolveAll();
    });
  }

  inspect(_space: Space, generation: Generation, hash: Hash, limits: NodeLimits): Promise<InspectedObject> {
    return guard('inspecting an object', async () => {
      const file = await this.#find(generation);
      if (file === undefined) return { found: false };
      try {
        return { found: true, evidence: await this.#judge(file, hash, limits) };
      } finally {
        await file.close();
      }
    });
  }

  /** Small records of packs, as small nodes of their own are read from the database: at once. */
  findNow(object: StoredObject, start: number, end: number): Uint8Array | undefined {
    // Canonical bytes of a node that is read at once: handing such a read to another thread costs several times the read.
    if (!isPacked(object) || object.canonicalSize > 32 * 1024) return undefined;
    const { packed, integrity } = object;
    const stored = this.packs.findRecordNow({ place: packed, integrity });
    return stored && findCanonicalNow(stored, object)?.subarray(start, end);
  }

  read(object: StoredObject, start: number, end: number, aids: ReadAids = {}): Promise<Uint8Array> {
    if (isPacked(object)) return readPackedNode(this.packs, object, start, end);
    return this.#reading('reading content', object, (reader) => reader.read(start, end, aids.scratch));
  }

  getVersion(object: StoredObject): Promise<string> {
    const generation = object.packed?.pack ?? object.generation;
    return guard('reading content', async () => {
      const version = await this.#files.findVersion(this.#layout.objectOf(generation));
      if (version !== undefined) return version;
      await this.#assertHealthy(generation);
      throw new ContentLost(`the object of generation ${generation} is not there`);
    });
  }

  prove(object: StoredObject, start: number, end: number): Promise<void> {
    if (isPacked(object)) return provePackedNode(this.packs, object);
    return this.#reading('reading content', object, (reader) => reader.prove(start, end));
  }

  verify(object: StoredObject, hash: Hash): Promise<void> {
    if (isPacked(object)) return verifyPackedNode(this.packs, object, hash);
    return this.#reading('verifying content', object, (reader) => reader.verify(hash));
  }

  verifyInline(content: ContentRow): void {
    const bytes = content.inlineBytes;
    // A flipped bit can turn bytes into text, which has the same checksum.
    if (!(bytes instanceof Uint8Array) || bytes.length !== content.canonicalSize) {
      throw new ContentDamaged(
        `the bytes of generation ${content.generation} are no bytes any more, or of another length`,
      );
    }
    const integrity = new BlockIntegrity(content.integrity, content.canonicalSize);
    if (!integrity.isIntact(bytes, 0)) {
      throw new ContentDamaged(`the bytes of generation ${content.generation} do not match their checksum`);
    }
  }

  async delete(_space: Space, generations: readonly Generation[]): Promise<DeletedObjects> {
    const deleted = new Set<Generation>();
    let failure: unknown;
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let generation = generations[next++]; generation !== undefined; generation = generations[next++]) {
        try {
          await this.#delete(generation);
          deleted.add(generation);
        } catch (error) {
          failure ??= error;
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    return { deleted, failure };
  }

  #delete(generation: Generation): Promise<void> {
    return guard('deleting content', async () => {
      if (!(await removeObject(this.#names, generation))) await this.#assertHealthy(generation);
    });
  }

  sweep(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    return guard('sweeping', async () => {
      const steps = [this.#staged.sweep(findKnown), this.#strays.step(findKnown, now, walk)];
      const [failed] = (await Promise.allSettled(steps)).filter(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
    });
  }

  async close(): Promise<void> {
    this.#registry.close();
  }

  async #judge(file: OpenFile, hash: Hash, limits: NodeLimits) {
    if (file.sizeNow() > limits.nodeBytesMax) return tooLarge(limits.nodeBytesMax);
    const judge = new UploadJudge(hash);
    const integrity = new IntegrityBuilder();
    const block = this.#pool.take();
    try {
      for (;;) {
        const length = await file.read(block, judge.bytes);
        if (length === 0) break;
        judge.push(block.subarray(0, length));
        integrity.push(block.subarray(0, length));
        if (length < BLOCK_BYTES) break;
      }
    } finally {
      this.#pool.give(block);
    }
    return judge.judge(() => integrity.finish(), false);
  }

  #reading<T>(
    doing: string,
    { generation, integrity: record, canonicalSize }: StoredObject,
    use: (reader: ObjectReader) => Promise<T>,
  ): Promise<T> {
    return guard(doing, async () => {
      const integrity = new BlockIntegrity(record, canonicalSize);
      const file = await this.#find(generation);
      if (file === undefined) throw new ContentLost(`the object of generation ${generation} is not there`);
      const reader = new ObjectReader({ file, integrity, generation });
      try {
        return await use(reader);
      } finally {
        reader.close();
      }
    });
  }

  /** `undefined` only when a healthy store has no such object. */
  async #find(generation: Generation): Promise<OpenFile | undefined> {
    try {
      return await this.#files.openToRead(this.#layout.objectOf(generation));
    } catch (error) {
      // A link or a socket in its place is no object.
      if (!['ENOENT', 'ELOOP', 'ENXIO'].includes(codeOf(error) ?? '')) throw error;
      await this.#assertHealthy(generation);
      return undefined;
    }
  }

  /** An unmounted disk has no objects either, so absence is proof only while the marker is there. */
  async #assertHealthy(generation: Generation): Promise<void> {
    const marker = await readMarker(this.#files, this.#layout.marker);
    const shard = await this.#files.findIdentity(this.#layout.shardOf(generation));
    if (marker === this.#storeId && shard !== undefined) return;
    throw new StoreUnavailable(
      `the content folder ${this.#layout.root} is not the store these rows belong to: is its disk mounted?`,
    );
  }
}
