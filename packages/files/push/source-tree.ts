/**
 * Folders of what is pushed, each reached from the one above it without ever following a link. On Linux a folder is held open and
 * its entries are named through its descriptor: whatever happens to a path meanwhile, nothing outside the tree is read, and a folder
 * that is renamed is read to its end. Elsewhere each folder on the way is looked at before it is listed.
 */
import { constants, existsSync, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs';
import { type ByteString, toFsPath } from '../byte-names.ts';
import type { FileStats } from '../entry-stats.ts';
import { DESCRIPTORS, lookAtIn, openIn } from '../folder-calls.ts';
import { FOLDER_FLAGS, OpenFolders } from '../open-folders.ts';
import { listNames, type NameList } from './name-list.ts';

/** A link, device or pipe that takes the place of a file is never followed, nor waited for. */
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** A folder of the tree. Every method throws what the system says. */
export interface SourceFolder {
  list(): NameList;
  /** Undefined: nothing stands there. */
  lookAt(name: ByteString): FileStats | undefined;
  openFile(name: ByteString): number;
  readLink(name: ByteString): Buffer;
  mtimeNs(name: ByteString): bigint;
  /** To be used at once: a descriptor in it may mean another folder later. */
  pathOf(name: ByteString): string | Buffer;
}

/** The source of a push: a folder and all below it, or one file or link. Close it. */
export class SourceTree {
  readonly isFolder: boolean;
  /** The name of a root that is no folder, in the folder ''. */
  readonly rootName: ByteString;
  readonly #base: ByteString;
  readonly #folders: OpenFolders<ByteString> | undefined;

  /** `root` is absolute. Throws what the system says. */
  constructor(root: ByteString) {
    this.isFolder = lstatSync(toFsPath(root)).isDirectory();
    const slash = root.lastIndexOf('/');
    this.#base = this.isFolder ? root.replace(/\/$/, '') : root.slice(0, slash);
    this.rootName = this.isFolder ? '' : root.slice(slash + 1);
    if (!existsSync(DESCRIPTORS)) return;
    this.#folders = new OpenFolders({
      descriptor: this.isFolder
        ? openSync(toFsPath(root), FOLDER_FLAGS)
        : // O_PATH of Linux, which Node has no name for: it takes no right to list the folder.
          openSync(toFsPath(`${this.#base}/`), 0o10000000 | constants.O_DIRECTORY),
      openMax: 64,
      parentOf: (path) => parentOf(path) || undefined,
      open: openFolder,
    });
  }

  /** `path`: from the root. */
  folder(path: ByteString): SourceFolder {
    const folders = this.#folders;
    return folders === undefined
      ? new CheckedFolder(this.#base, path)
      : new HeldFolder(() => folders.descriptorOf(path || undefined));
  }

  lookAtRoot(): FileStats {
    if (!this.isFolder) {
      const found = this.folder('').lookAt(this.rootName);
      if (found !== undefined) return found;
    }
    const descriptor = this.isFolder ? this.#folders?.descriptorOf(undefined) : undefined;
    if (descriptor === undefined) return lstatSync(toFsPath(this.rootPath));
    return lookAtIn(descriptor, '') ?? fstatSync(descriptor);
  }

  get rootPath(): ByteString {
    return this.isFolder ? this.#base || '/' : `${this.#base}/${this.rootName}`;
  }

  close(): void {
    this.#folders?.close();
  }
}

function openFolder(parent: number, path: ByteString): number {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return (
    openIn(parent, name, FOLDER_FLAGS) ?? openSync(toFsPath(`${DESCRIPTORS}/${parent}/${name}`), FOLDER_FLAGS)
  );
}

/** The folder above; '' is the root. */
function parentOf(path: ByteString): ByteString {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

class HeldFolder implements SourceFolder {
  readonly #descriptor: () => number;

  constructor(descriptor: () => number) {
    this.#descriptor = descriptor;
  }

  list(): NameList {
    return listNames(`${DESCRIPTORS}/${this.#descriptor()}`);
  }

  lookAt(name: ByteString): FileStats | undefined {
    return lookAtIn(this.#descriptor(), name) ?? lstatSync(this.pathOf(name), { throwIfNoEntry: false });
  }

  openFile(name: ByteString): number {
    return openIn(this.#descriptor(), name, FILE_FLAGS) ?? openSync(this.pathOf(name), FILE_FLAGS);
  }

  readLink(name: ByteString): Buffer {
    return readlinkSync(this.pathOf(name), { encoding: 'buffer' });
  }

  mtimeNs(name: ByteString): bigint {
    const stats = lookAtIn(this.#descriptor(), name);
    return stats?.mtimeNs ?? lstatSync(this.pathOf(name), { bigint: true }).mtimeNs;
  }

  pathOf(name: ByteString): string | Buffer {
    return toFsPath(`${DESCRIPTORS}/${this.#descriptor()}/${name}`);
  }
}

/** For systems whose descriptors have no paths. A link that is put in place between the look and the use is not noticed. */
class CheckedFolder implements SourceFolder {
  readonly #base: ByteString;
  readonly #path: ByteString;

  constructor(base: ByteString, path: ByteString) {
    this.#base = base;
    this.#path = path;
  }

  list(): NameList {
    this.#check();
    return listNames(this.#absolute());
  }

  lookAt(name: ByteString): FileStats | undefined {
    return lstatSync(this.pathOf(name), { throwIfNoEntry: false });
  }

  openFile(name: ByteString): number {
    this.#check();
    return openSync(this.pathOf(name), FILE_FLAGS);
  }

  readLink(name: ByteString): Buffer {
    this.#check();
    return readlinkSync(this.pathOf(name), { encoding: 'buffer' });
  }

  mtimeNs(name: ByteString): bigint {
    return lstatSync(this.pathOf(name), { bigint: true }).mtimeNs;
  }

  pathOf(name: ByteString): string | Buffer {
    return toFsPath(`${this.#absolute()}/${name}`);
  }

  #absolute(): ByteString {
    return this.#path === '' ? this.#base : `${this.#base}/${this.#path}`;
  }

  #check(): void {
    for (let at = this.#path; at !== ''; at = parentOf(at)) {
      if (lstatSync(toFsPath(`${this.#base}/${at}`)).isDirectory()) continue;
      throw Object.assign(new Error('ENOTDIR: a link or file has taken the place of a folder, open'), {
        code: 'ENOTDIR',
        syscall: 'open',
      });
    }
  }
}
