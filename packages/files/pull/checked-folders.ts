/**
 * Folders of a pull's target, each reached from the one above it without ever following a link. On Linux a folder is held
 * open and its entries are named through its descriptor: whatever happens to the path meanwhile, the entry is in that very
 * folder. Elsewhere the whole path is looked at again before each use.
 */
import { closeSync, constants, existsSync, lstatSync, openSync } from 'node:fs';
import { PullTargetError, type TreePath } from '@holdfast/client/internal';
import { shareOfDescriptors } from '../descriptor-limit.ts';
import { DESCRIPTORS, openIn } from '../folder-calls.ts';
import { explain, shownPath } from './failure.ts';
import { folderOf, pathOf, type TargetFolder } from './target-folder.ts';

/** Descriptors that are kept open; folders beyond it are opened again when needed. */
const FOLDERS_OPEN_MAX = 128;
/** Folders may hold one in this many of the process's descriptors. */
const FOLDERS_SHARE = 8;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const SLASH = Buffer.from('/');

export interface FolderAccess {
  /** Use the folder at once: its prefix may lead elsewhere later. A descriptor means the same folder until it is dropped. */
  at(path: TreePath | undefined): TargetFolder;
  close(): void;
}

/** Calls `close`, which closes the descriptor of a folder, once nothing is being written through that descriptor. */
export type DropLater = (descriptor: number, close: () => void) => void;

/** `base` may be reached through links: the user named it. */
export function openFolders(base: string, dropLater: DropLater = (_, close) => close()): FolderAccess {
  return existsSync(DESCRIPTORS) ? new HeldFolders(base, dropLater) : new CheckedFolders(base);
}

class HeldFolders implements FolderAccess {
  readonly #base: string;
  readonly #dropLater: DropLater;
  readonly #baseDescriptor: number;
  /** the one used last is last */
  readonly #open = new Map<TreePath, number>();
  readonly #openMax = shareOfDescriptors(FOLDERS_SHARE, FOLDERS_OPEN_MAX);

  constructor(base: string, dropLater: DropLater) {
    this.#base = base;
    this.#dropLater = dropLater;
    this.#baseDescriptor = openSync(base, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  at(path: TreePath | undefined): TargetFolder {
    return folderOf(this.#descriptorOf(path));
  }

  close(): void {
    for (const descriptor of this.#open.values()) closeSync(descriptor);
    this.#open.clear();
    closeSync(this.#baseDescriptor);
  }

  #descriptorOf(path: TreePath | undefined): number {
    const chain: TreePath[] = [];
    let descriptor: number | undefined;
    for (let at = path; at !== undefined; at = at.parent) {
      descriptor = this.#findOpen(at);
      if (descriptor !== undefined) break;
      chain.push(at);
    }
    descriptor ??= this.#baseDescriptor;
    for (const next of chain.reverse()) descriptor = this.#openBelow(descriptor, next);
    return descriptor;
  }

  #findOpen(path: TreePath): number | undefined {
    const descriptor = this.#open.get(path);
    if (descriptor === undefined) return undefined;
    this.#open.delete(path);
    this.#open.set(path, descriptor);
    return descriptor;
  }

  #openBelow(parent: number, path: TreePath): number {
    let descriptor: number;
    try {
      descriptor =
        openIn(parent, path.name, FOLDER_FLAGS) ??
        openSync(pathOf(folderOf(parent), path.name), FOLDER_FLAGS);
    } catch (error) {
      throw noFolder(this.#base, path, error);
    }
    // The dropped folder is not `parent`: that one was used last.
    for (const [oldest, held] of this.#open) {
      if (this.#open.size < this.#openMax) break;
      this.#open.delete(oldest);
      this.#dropLater(held, () => closeSync(held));
    }
    this.#open.set(path, descriptor);
    return descriptor;
  }
}

/** For systems whose descriptors have no paths. A link that is put in place between the look and the use is not noticed. */
export class CheckedFolders implements FolderAccess {
  readonly #base: string;

  constructor(base: string) {
    this.#base = base;
    if (!lstatSync(`${base}/.`).isDirectory()) throw new PullTargetError(`${base} is not a folder`);
  }

  at(path: TreePath | undefined): TargetFolder {
    const chain: TreePath[] = [];
    for (let at = path; at !== undefined; at = at.parent) chain.push(at);
    let prefix = Buffer.concat([Buffer.from(this.#base), SLASH]);
    for (const next of chain.reverse()) {
      const folder = Buffer.concat([prefix, next.name]);
      let isFolder: boolean;
      try {
        isFolder = lstatSync(folder).isDirectory();
      } catch (error) {
        throw noFolder(this.#base, next, error);
      }
      if (!isFolder) throw noFolder(this.#base, next, undefined);
      prefix = Buffer.concat([folder, SLASH]);
    }
    return { prefix, descriptor: undefined };
  }

  close(): void {
    // Nothing is held.
  }
}

function noFolder(base: string, path: TreePath, error: unknown): PullTargetError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const shown = shownPath(base, path);
  if (error === undefined || code === 'ELOOP' || code === 'ENOTDIR') {
    return new PullTargetError(`${shown} is not a folder (any more); a pull follows no links: move it away`);
  }
  return explain(error, `${shown} cannot be opened`);
}
