/** Copies of a folder that does not change, one after the other in the same place. */
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** A data folder has hundreds of folders. They stay from copy to copy, because making them costs more than all the rest. */
export class RenewedCopy {
  readonly #origin: string;
  /** by folder; undefined: nothing was copied yet */
  #names: ReadonlyMap<string, Names> | undefined;

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Makes `place` equal to the origin: nothing of what was done there stays. */
  make(place: string): void {
    this.#names ??= namesBelow(this.#origin);
    for (const [folder, { files, folders }] of this.#names) {
      const to = join(place, folder);
      mkdirSync(to, { recursive: true });
      // Files are made anew: SQLite knows a database by its inode, as long as anyone has it open.
      for (const name of readdirSync(to)) if (!folders.has(name)) rmSync(join(to, name), { recursive: true });
      for (const name of files) copyFileSync(join(this.#origin, folder, name), join(to, name));
    }
  }
}

interface Names {
  readonly files: readonly string[];
  readonly folders: ReadonlySet<string>;
}

/** SQLite's files beside a database that was closed: they have nothing. */
const WITHOUT_CONTENT = /-(?:wal|shm)$/;

/** By folder, the outer ones first. */
function namesBelow(origin: string): Map<string, Names> {
  const found = new Map<string, Names>();
  const visit = (folder: string): void => {
    const entries = readdirSync(join(origin, folder), { withFileTypes: true }).filter(
      ({ name }) => !WITHOUT_CONTENT.test(name),
    );
    const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    found.set(folder, { files, folders: new Set(folders) });
    for (const name of folders) visit(join(folder, name));
  };
  visit('');
  return found;
}
