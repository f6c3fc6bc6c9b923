/** Copies the objects that a folder lacks. An object never changes, so its name shows whether it was copied. */

import { closeSync, fchmodSync, fstatSync, fsync } from 'node:fs';
import { promisify } from 'node:util';
import { groupsOf, PRIVATE_FILE_MODE } from '@holdfast/protocol';
import type { Generation } from '../core/model.ts';
import { openOwnFile } from '../deployment/held-folder.ts';
import type { NamedObject, ObjectFiles } from '../engine/backup-ports.ts';
import { type BackupObjects, copyFileBytes } from './backup-objects.ts';
import { GrowingFile, readPiece } from './durable-files.ts';
import { explainSource } from './explain-disk.ts';
import type { Pace } from './pace.ts';
import type { ObjectSizes } from './repository.ts';
import { INCOMING } from './repository.ts';

const syncFile = promisify(fsync);
/** Larger objects are copied in pieces, with pauses between them. */
const PIECE_BYTES = 4 * 1024 * 1024;

interface ObjectCopyOptions {
  readonly dataDir: string;
  readonly source: ObjectFiles;
  readonly target: BackupObjects;
  readonly known: ObjectSizes;
  /** whether the backup before this one was interrupted */
  readonly isResumed: boolean;
  readonly pace: Pace;
  /** called for each object added to the target */
  readonly onCopied: () => void;
}

export interface ProvenObjects {
  readonly kept: ObjectSizes;
  /** objects that the rows refer to and the source has lost: only the backup has them */
  readonly lost: number;
  /** objects that the rows refer to and that the target lacks or has with another length */
  readonly missing: readonly Generation[];
}

export class ObjectCopies {
  readonly #options: ObjectCopyOptions;
  readonly #sizes: Map<Generation, number>;
  /** the listing of the last two passes */
  #listed: ReadonlySet<Generation> = new Set();
  #listedBefore: ReadonlySet<Generation> = new Set();

  constructor(options: ObjectCopyOptions) {
    this.#options = options;
    this.#sizes = new Map(options.known);
    const { target } = options;
    // Partial copies of an interrupted backup.
    target.folder.removeTree(INCOMING);
    target.folder.makeFolders([INCOMING]);
    target.makeFolders();
    // Objects from an interrupted backup count as copied.
    if (options.isResumed) target.sync(this.#sizes.keys());
  }

  /** Resolves when all listed objects are durable in the target. Without pauses it takes only what was added since the last pass. */
  async pass(withRests: boolean): Promise<void> {
    const { source, target, pace } = this.#options;
    const listed = this.#reading(() => source.list());
    this.#listedBefore = this.#listed;
    this.#listed = new Set(listed);
    const missing = listed.filter((generation) => !this.#sizes.has(generation));
    // Their fsyncs reach the disk together.
    for (const batch of groupsOf(missing, 8)) {
      await this.#copyBatch(batch, withRests ? pace : undefined);
    }
    target.sync(missing);
  }

  /** Proves that the target has each object of the pinned rows, with its length. The next pass copies missing objects again. */
  async prove(named: Iterable<NamedObject>): Promise<ProvenObjects> {
    const kept = new Map([...this.#sizes].filter(([generation]) => this.#isListed(generation)));
    const missing: Generation[] = [];
    let [lost, looks] = [0, 0];
    for (const object of named) {
      const { generation, isNeeded } = object;
      const size = this.#sizes.get(generation);
      if (size !== undefined && this.#isWhole(object, size)) {
        if (!this.#isListed(generation)) lost += 1;
        kept.set(generation, size);
      } else if (isNeeded) {
        this.#sizes.delete(generation);
        missing.push(generation);
      }
      // Lets signals and timers run.
      if (++looks % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return { kept, lost, missing };
  }

  #isWhole({ generation, bytes, isNeeded }: NamedObject, size: number): boolean {
    const found = this.#options.target.findSize(generation);
    return found === size && (!isNeeded || bytes === undefined || bytes === size);
  }

  #isListed(generation: Generation): boolean {
    return this.#listed.has(generation) || this.#listedBefore.has(generation);
  }

  /** Removes objects that are in none of the lists. Call it when no manifest refers to them. */
  removeOthers(kept: readonly ObjectSizes[]): void {
    const { target } = this.#options;
    for (const generation of target.list()) {
      if (!kept.some((list) => list.has(generation))) target.remove(generation);
    }
  }

  /** Copies small objects concurrently and large ones in pieces. Skips objects that were deleted meanwhile. */
  async #copyBatch(batch: readonly Generation[], rests: Pace | undefined): Promise<void> {
    const startedAt = performance.now();
    const large: Generation[] = [];
    let bytes = 0;
    await Promise.all(
      batch.map(async (generation) => {
        const copied = await this.#withSource(generation, async (from) => {
          const { size } = fstatSync(from);
          if (size > PIECE_BYTES) return void large.push(generation);
          // A copy has its own inode, and shares blocks if the file system supports that.
          await this.#write(generation, size, (to) => copyFileBytes(from, to));
          return size;
        });
        bytes += copied ?? 0;
      }),
    );
    await rests?.rest(performance.now() - startedAt, bytes);
    for (const generation of large) {
      await this.#withSource(generation, (from) => this.#copyLarge(generation, from, rests));
    }
  }

  async #copyLarge(generation: Generation, from: number, rests: Pace | undefined): Promise<void> {
    const to = new GrowingFile(this.#options.target.folder, draftOf(generation));
    let size = 0;
    try {
      const piece = Buffer.alloc(PIECE_BYTES);
      for (;;) {
        const startedAt = performance.now();
        const bytesRead = await this.#reading(() => readPiece(from, piece, size));
        if (bytesRead === 0) break;
        to.append(piece.subarray(0, bytesRead));
        size += bytesRead;
        await rests?.rest(performance.now() - startedAt, bytesRead);
      }
      to.sync();
    } finally {
      to.close();
    }
    this.#keep(generation, size);
  }

  async #write(generation: Generation, size: number, write: (to: number) => Promise<void>): Promise<void> {
    const to = this.#options.target.folder.create(draftOf(generation));
    try {
      await write(to);
      fchmodSync(to, PRIVATE_FILE_MODE);
      await syncFile(to);
    } finally {
      closeSync(to);
    }
    this.#keep(generation, size);
  }

  /** The draft is complete and durable. */
  #keep(generation: Generation, size: number): void {
    const { target, pace, onCopied } = this.#options;
    target.folder.rename(draftOf(generation), target.nameOf(generation));
    this.#sizes.set(generation, size);
    pace.count(size);
    onCopied();
  }

  /** undefined if the object was deleted after it was listed. */
  async #withSource<T>(generation: Generation, use: (from: number) => Promise<T>): Promise<T | undefined> {
    const from = this.#reading(() => openOwnFile(this.#options.source.pathOf(generation)));
    if (from === undefined) return undefined;
    try {
      return await use(from);
    } finally {
      closeSync(from);
    }
  }

  /** Errors of the source name the source. */
  #reading<T>(work: () => T): T {
    const { dataDir } = this.#options;
    try {
      const done = work();
      if (!(done instanceof Promise)) return done;
      return done.catch((error: unknown) => {
        throw explainSource(dataDir, error);
      }) as T;
    } catch (error) {
      throw explainSource(dataDir, error);
    }
  }
}

const draftOf = (generation: Generation): string => `${INCOMING}/${generation}`;
