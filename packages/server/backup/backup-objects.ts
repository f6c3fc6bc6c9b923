/** Objects as files of an open folder: of a backup, or of a data folder being restored. */
import { constants } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isGeneration } from '../core/generation.ts';
import type { Generation } from '../core/model.ts';
import { type HeldFolder, NotOurs } from '../deployment/held-folder.ts';
import type { ObjectFiles } from '../engine/backup-ports.ts';

export class BackupObjects {
  readonly folder: HeldFolder;
  readonly #files: Pick<ObjectFiles, 'nameOf' | 'folderNames'>;
  readonly #prefix: string;

  /** `prefix`: path of the objects' root within the folder, with a trailing slash */
  constructor(folder: HeldFolder, files: Pick<ObjectFiles, 'nameOf' | 'folderNames'>, prefix = '') {
    this.folder = folder;
    this.#files = files;
    this.#prefix = prefix;
  }

  nameOf(generation: Generation): string {
    return `${this.#prefix}${this.#files.nameOf(generation)}`;
  }

  /** The folders are durable when it returns. @throws NotOurs */
  makeFolders(): void {
    this.folder.makeFolders(this.#files.folderNames.map((name) => `${this.#prefix}${name}`));
  }

  /** @throws NotOurs */
  list(): Generation[] {
    return this.#files.folderNames.flatMap((name) =>
      this.folder.list(`${this.#prefix}${name}`).filter(isGeneration),
    );
  }

  /** The size of each object that is a regular file. */
  listSizes(): Map<Generation, number> {
    const sizes = new Map<Generation, number>();
    for (const generation of this.list()) {
      const found = this.findSize(generation);
      if (typeof found === 'number') sizes.set(generation, found);
    }
    return sizes;
  }

  /** The object's size; undefined if absent; `other` if it is not a regular file. */
  findSize(generation: Generation): number | 'other' | undefined {
    try {
      return this.folder.sizeOf(this.nameOf(generation));
    } catch (error) {
      if (error instanceof NotOurs) return 'other';
      throw error;
    }
  }

  openToRead(generation: Generation): number | undefined {
    return this.folder.openToRead(this.nameOf(generation));
  }

  remove(generation: Generation): void {
    this.folder.remove(this.nameOf(generation));
  }

  /** Makes the names of these objects durable. */
  sync(generations: Iterable<Generation>): void {
    const folders = new Set([...generations].map((generation) => dirname(this.nameOf(generation))));
    for (const name of folders) this.folder.sync(name);
  }
}

/** Copies from the first descriptor to the second. The copy shares blocks if the file system supports that. */
export async function copyFileBytes(from: number, to: number): Promise<void> {
  await copyFile(`/proc/self/fd/${from}`, `/proc/self/fd/${to}`, constants.COPYFILE_FICLONE);
}
