/** Copies the objects that a folder does not have yet. An object never changes, so its name alone tells whether it was copied. */
import { constants, mkdirSync, rmSync } from 'node:fs';
import { copyFile, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Generation } from '../core/model.ts';
import type { ObjectFiles } from '../engine/backup-ports.ts';
import { syncFolder } from './durable-files.ts';
import type { ObjectSizes } from './object-list.ts';
import type { Pace } from './pace.ts';

const FOLDER_MODE = 0o700;
const PRIVATE_MODE = 0o600;
/** Their fsyncs go to the disk together. */
const COPIES_IN_FLIGHT = 8;

interface ObjectCopyOptions {
  readonly source: ObjectFiles;
  readonly target: ObjectFiles;
  readonly incoming: string;
  /** what the target has */
  readonly known: ObjectSizes;
  readonly pace: Pace;
}

export interface ObjectPass {
  readonly copied: number;
  /** objects that were listed and then deleted before they were copied */
  readonly vanished: number;
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

  /** Resolves when all that was listed is durable in the target. */
  async pass(): Promise<ObjectPass> {
    const { source } = this.#options;
    const listed = source.list();
    this.#listedBefore = this.#listed;
    this.#listed = new Set(listed);
    const missing = listed.filter((generation) => !this.#sizes.has(generation));
    let next = 0;
    let vanished = 0;
    const folders = new Set<string>();
    const work = async (): Promise<void> => {
      for (let generation = missing[next++]; generation !== undefined; generation = missing[next++]) {
        if (await this.#copy(generation)) folders.add(dirname(this.#options.target.pathOf(generation)));
        else vanished += 1;
      }
    };
    await Promise.all(Array.from({ length: COPIES_IN_FLIGHT }, work));
    for (const folder of folders) syncFolder(folder);
    return { copied: missing.length - vanished, vanished };
  }

  /** What the backup keeps: the snapshot of the rows lies between the last two passes. */
  listKept(): ObjectSizes {
    const kept = [...this.#sizes].filter(
      ([generation]) => this.#listed.has(generation) || this.#listedBefore.has(generation),
    );
    return new Map(kept);
  }

  /** Call once no manifest names them any more. */
  async removeOthers(kept: ObjectSizes): Promise<void> {
    for (const generation of this.#sizes.keys()) {
      if (!kept.has(generation)) await rm(this.#options.target.pathOf(generation), { force: true });
    }
  }

  /** `false`: the object was deleted meanwhile. */
  async #copy(generation: Generation): Promise<boolean> {
    const { source, target, incoming, pace } = this.#options;
    const draft = join(incoming, generation);
    try {
      // A clone has an inode of its own; where the file system has none, the bytes are copied.
      await copyFile(source.pathOf(generation), draft, constants.COPYFILE_FICLONE);
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ENOENT') throw error;
      return false;
    }
    const file = await open(draft, 'r+');
    let size: number;
    try {
      await file.chmod(PRIVATE_MODE);
      await file.sync();
      size = (await file.stat()).size;
    } finally {
      await file.close();
    }
    await rename(draft, target.pathOf(generation));
    this.#sizes.set(generation, size);
    await pace.take(size);
    return true;
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
