/** Copies the objects that a folder does not have yet. An object never changes, so its name alone tells whether it was copied. */
import { constants, mkdirSync, rmSync, statSync } from 'node:fs';
import { copyFile, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Generation } from '../core/model.ts';
import type { NamedObject, ObjectFiles } from '../engine/backup-ports.ts';
import { GrowingFile, syncFolder } from './durable-files.ts';
import type { ObjectSizes } from './object-list.ts';
import type { Pace } from './pace.ts';

const FOLDER_MODE = 0o700;
const PRIVATE_MODE = 0o600;
/** Their fsyncs go to the disk together. */
const COPIES_IN_FLIGHT = 8;
/** Larger objects are copied piece by piece, with rests in between. */
const PIECE_BYTES = 4 * 1024 * 1024;
/** Signals and timers get their turn. */
const LOOKS_BETWEEN_TURNS = 1000;

interface ObjectCopyOptions {
  readonly source: ObjectFiles;
  readonly target: ObjectFiles;
  readonly incoming: string;
  /** what the target has */
  readonly known: ObjectSizes;
  readonly pace: Pace;
  /** an object more is in the target */
  readonly onCopied: () => void;
}

/** What the backup keeps. */
export interface ProvenObjects {
  readonly kept: ObjectSizes;
  /** objects that the rows name and the source has lost: the copies are the last ones */
  readonly lost: number;
  /** objects that the rows name and the target has not, or not with their length */
  readonly missing: readonly Generation[];
}

export class ObjectCopies {
  readonly #options: ObjectCopyOptions;
  readonly #sizes: Map<Generation, number>;
  /** what the last two passes listed */
  #listed: ReadonlySet<Generation> = new Set();
  #listedBefore: ReadonlySet<Generation> = new Set();

  constructor(options: ObjectCopyOptions) {
    this.#options = options;
    this.#sizes = new Map(options.known);
    const { incoming, target } = options;
    // Copies of a backup that was interrupted.
    rmSync(incoming, { recursive: true, force: true });
    for (const folder of [incoming, ...target.folders])
      mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  }

  /** Resolves when all that was listed is durable in the target. Without rests it takes what came since the pass before. */
  async pass(withRests: boolean): Promise<void> {
    const { source, target, pace } = this.#options;
    const listed = source.list();
    this.#listedBefore = this.#listed;
    this.#listed = new Set(listed);
    const missing = listed.filter((generation) => !this.#sizes.has(generation));
    const folders = new Set<string>();
    for (let at = 0; at < missing.length; at += COPIES_IN_FLIGHT) {
      const batch = missing.slice(at, at + COPIES_IN_FLIGHT);
      const copied = await this.#copyBatch(batch, withRests ? pace : undefined);
      for (const generation of copied) folders.add(dirname(target.pathOf(generation)));
    }
    for (const folder of folders) syncFolder(folder);
  }

  /**
   * Proves that the target has each object that the pinned rows name, with its length: the snapshot of the rows lies between the
   * last two passes. What is missing is not taken for copied any more, so the next pass copies it again.
   */
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
      if (++looks % LOOKS_BETWEEN_TURNS === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return { kept, lost, missing };
  }

  #isWhole({ generation, bytes, isNeeded }: NamedObject, size: number): boolean {
    const found = statSync(this.#options.target.pathOf(generation), { throwIfNoEntry: false });
    return found?.size === size && (!isNeeded || bytes === undefined || bytes === size);
  }

  #isListed(generation: Generation): boolean {
    return this.#listed.has(generation) || this.#listedBefore.has(generation);
  }

  /** Call once no manifest names them any more. */
  async removeOthers(kept: ObjectSizes): Promise<void> {
    for (const generation of this.#sizes.keys()) {
      if (!kept.has(generation)) await rm(this.#options.target.pathOf(generation), { force: true });
    }
  }

  /** Small ones side by side, large ones in pieces. Resolves with those that were not deleted meanwhile. */
  async #copyBatch(batch: readonly Generation[], rests: Pace | undefined): Promise<readonly Generation[]> {
    const startedAt = performance.now();
    const copied: Generation[] = [];
    const large: Generation[] = [];
    let bytes = 0;
    await Promise.all(
      batch.map((generation) =>
        ifThere(async () => {
          const from = this.#options.source.pathOf(generation);
          const { size } = await stat(from);
          if (size > PIECE_BYTES) return void large.push(generation);
          // A copy has an inode of its own, and shares blocks where the file system can do that.
          await copyFile(from, this.#draftOf(generation), constants.COPYFILE_FICLONE);
          await this.#keep(generation, size);
          bytes += size;
          copied.push(generation);
        }),
      ),
    );
    await rests?.rest(performance.now() - startedAt, bytes);
    for (const generation of large) {
      await ifThere(async () => {
        const size = await this.#copyLarge(generation, rests);
        await this.#keep(generation, size);
        copied.push(generation);
      });
    }
    return copied;
  }

  async #copyLarge(generation: Generation, rests: Pace | undefined): Promise<number> {
    const from = await open(this.#options.source.pathOf(generation), 'r');
    const to = new GrowingFile(this.#draftOf(generation));
    try {
      const piece = Buffer.alloc(PIECE_BYTES);
      let size = 0;
      for (;;) {
        const startedAt = performance.now();
        const { bytesRead } = await from.read(piece, 0, piece.length, size);
        if (bytesRead === 0) return size;
        to.append(piece.subarray(0, bytesRead));
        size += bytesRead;
        await rests?.rest(performance.now() - startedAt, bytesRead);
      }
    } finally {
      to.close();
      await from.close();
    }
  }

  /** The draft is complete. */
  async #keep(generation: Generation, size: number): Promise<void> {
    const draft = this.#draftOf(generation);
    const file = await open(draft, 'r+');
    try {
      await file.chmod(PRIVATE_MODE);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, this.#options.target.pathOf(generation));
    this.#sizes.set(generation, size);
    this.#options.pace.count(size);
    this.#options.onCopied();
  }

  #draftOf(generation: Generation): string {
    return join(this.#options.incoming, generation);
  }
}

/** An object may be deleted after it was listed. */
async function ifThere(copy: () => Promise<void>): Promise<void> {
  try {
    await copy();
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ENOENT') throw error;
  }
}

/** What an interrupted backup left complete. */
export async function findCopiedObjects(target: ObjectFiles): Promise<Map<Generation, number>> {
  const sizes = new Map<Generation, number>();
  for (const generation of target.list()) {
    sizes.set(generation, (await stat(target.pathOf(generation))).size);
  }
  return sizes;
}
