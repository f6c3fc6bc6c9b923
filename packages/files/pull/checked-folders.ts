/**
 * Folders of a pull's target, each reached from the one above it without ever following a link. On Linux a folder is held
 * open and its entries are named through its descriptor: whatever happens to the path meanwhile, the entry is in that very
 * folder. Elsewhere the whole path is looked at again before each use.
 */
import { closeSync, constants, existsSync, lstatSync, openSync } from 'node:fs';
import { PullTargetError, type TreePath } from '@holdfast/client/internal';
import { DESCRIPTORS, openIn } from '../folder-calls.ts';
import { FOLDER_FLAGS, OpenFolders } from '../open-folders.ts';
import { explain, shownPath } from './failure.ts';
import { folderOf, pathOf, type TargetFolder } from './target-folder.ts';

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
  readonly #folders: OpenFolders<TreePath>;

  constructor(base: string, dropLater: DropLater) {
    this.#folders = new OpenFolders({
      descriptor: openSync(base, constants.O_RDONLY | constants.O_DIRECTORY),
      openMax: 128,
      parentOf: ({ parent }) => parent,
      open: (parent, path) => openFolder(base, parent, path),
      drop: (descriptor) => dropLater(descriptor, () => closeSync(descriptor)),
    });
  }

  at(path: TreePath | undefined): TargetFolder {
    return folderOf(this.#folders.descriptorOf(path));
  }

  close(): void {
    this.#folders.close();
  }
}

function openFolder(base: string, parent: number, path: TreePath): number {
  try {
    return (
      openIn(parent, path.name, FOLDER_FLAGS) ?? openSync(pathOf(folderOf(parent), path.name), FOLDER_FLAGS)
    );
  } catch (error) {
    throw noFolder(base, path, error);
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
