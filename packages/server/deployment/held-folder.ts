/** A folder of ours, held by its descriptor: each step names an entry relative to it and follows no link. Only files and folders count. */

import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Path segments that are not the name of an entry. */
const NO_NAMES = new Set(['', '.', '..']);
/** Error codes for a link, for a non-folder where a folder is needed, and for a socket. */
const OTHER_KIND = new Set(['ELOOP', 'ENOTDIR', 'ENXIO', 'EISDIR']);

/** An entry that Holdfast did not create is in the place of one of ours. */
export class NotOurs extends ServeError {
  override readonly name = 'NotOurs';

  constructor(path: string, wanted: 'file' | 'folder') {
    super(
      `${path} is no ${wanted} but ${describeKind(path)}, and Holdfast made no such thing there: move it away, then run the command again`,
    );
  }
}

function describeKind(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 'something else';
  if (found.isSymbolicLink()) return 'a link';
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a pipe';
  if (found.isSocket()) return 'a socket';
  return found.isFile() ? 'a file' : 'a device';
}

/** The descriptor of a file; undefined if there is none. Waits for no pipe. @throws NotOurs, or the error of the disk */
export function openOwnFile(path: string, shown = path): number | undefined {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw OTHER_KIND.has(codeOf(error) ?? '') ? new NotOurs(shown, 'file') : error;
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new NotOurs(shown, 'file');
}

/** The bytes of a small file; undefined if there is none. @throws NotOurs, ServeError if it is larger, or the error of the disk */
export function readOwnFile(path: string, bytesMax: number, shown = path): Buffer | undefined {
  const fd = openOwnFile(path, shown);
  if (fd === undefined) return undefined;
  try {
    const { size } = fstatSync(fd);
    if (size > bytesMax) {
      throw new ServeError(`${shown} has ${size} bytes, more than Holdfast ever writes there: move it away`);
    }
    const bytes = Buffer.alloc(size);
    let filled = 0;
    for (let read = 1; read > 0 && filled < size; filled += read) {
      read = readSync(fd, bytes, filled, size - filled, filled);
    }
    return bytes.subarray(0, filled);
  } finally {
    closeSync(fd);
  }
}

/** @throws NotOurs if the entry is no file; nothing is opened, and an entry that is missing is none of the caller's concern */
export function assertOwnFile(path: string): void {
  let found: Stats | undefined;
  try {
    found = lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // The caller that opens the entry reports why it cannot be reached.
    if (codeOf(error) === undefined) throw error;
  }
  if (found !== undefined && !found.isFile()) throw new NotOurs(path, 'file');
}

export class HeldFolder {
  /** for messages */
  readonly path: string;
  readonly #fd: number;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  /** The path is what a person named, so its own links are followed. @throws the error of the disk */
  static hold(path: string): HeldFolder {
    return new HeldFolder(path, openSync(path, O_RDONLY | O_DIRECTORY));
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** The kind of the entry; undefined if it does not exist. */
  look(name: string): Stats | undefined {
    try {
      return this.#at(name, (path) => lstatSync(path));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** The size of a file; undefined: there is none. @throws NotOurs */
  sizeOf(name: string): number | undefined {
    const found = this.look(name);
    if (found !== undefined && !found.isFile()) throw new NotOurs(join(this.path, name), 'file');
    return found?.size;
  }

  /** The descriptor of a file; undefined if there is none. @throws NotOurs */
  openToRead(name: string): number | undefined {
    return this.#ifThere(name, (path) => openOwnFile(path, join(this.path, name)));
  }

  /** @throws NotOurs, or ServeError if it is larger */
  read(name: string, bytesMax: number): Buffer | undefined {
    return this.#ifThere(name, (path) => readOwnFile(path, bytesMax, join(this.path, name)));
  }

  /** The descriptor of a file that the caller has just made. @throws NotOurs, or the error of the disk */
  openToChange(name: string): number {
    const fd = this.#at(name, (path) => openSync(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK));
    if (fstatSync(fd).isFile()) return fd;
    closeSync(fd);
    throw new NotOurs(join(this.path, name), 'file');
  }

  /** A new file, in the place of a file that is there. Nothing of that one is changed: another name of it may be elsewhere. */
  create(name: string): number {
    this.remove(name);
    return this.#at(name, (path) =>
      openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, PRIVATE_FILE_MODE),
    );
  }

  /** Replaces a file by another in one step. @throws NotOurs if a foreign entry is there */
  rename(from: string, to: string): void {
    this.sizeOf(to);
    this.#at(from, (source) => this.#at(to, (target) => renameSync(source, target)));
  }

  /** Removes a file if it exists. @throws NotOurs if a foreign entry is there */
  remove(name: string): void {
    if (this.sizeOf(name) !== undefined) this.#at(name, (path) => unlinkSync(path));
  }

  /** Removes the entry with all that is in it. */
  removeTree(name: string): void {
    this.#ifThere(name, (path) => rmSync(path, { recursive: true, force: true }));
  }

  /** The names in a folder; none if it is missing. @throws NotOurs */
  list(name = ''): string[] {
    if (name === '') return readdirSync(this.#descriptorPath(this.#fd));
    return this.#ifThere(`${name}/.`, (path) => readdirSync(path)) ?? [];
  }

  /** Creates folders and their parents if missing. Durable when it returns. @throws NotOurs if a foreign entry is there */
  makeFolders(names: readonly string[]): void {
    const parents = new Set<string>();
    for (const name of names) {
      const parts = name.split('/');
      for (let depth = 1; depth <= parts.length; depth += 1) {
        const each = parts.slice(0, depth).join('/');
        const found = this.look(each);
        if (found?.isDirectory() === false) throw new NotOurs(join(this.path, each), 'folder');
        if (found === undefined) this.#at(each, (path) => mkdirSync(path, PRIVATE_FOLDER_MODE));
        // Needed even if it existed: its creator may have been killed before this step.
        parents.add(parts.slice(0, depth - 1).join('/'));
      }
    }
    for (const parent of parents) this.sync(parent);
  }

  /** Makes the names in a folder durable. */
  sync(name = ''): void {
    if (name === '') fsyncSync(this.#fd);
    else this.#at(`${name}/.`, (_, folder) => fsyncSync(folder));
  }

  #ifThere<T>(name: string, use: (path: string) => T): T | undefined {
    try {
      return this.#at(name, use);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Calls `use` with a path of the entry below the descriptor of its folder. */
  #at<T>(name: string, use: (path: string, folder: number) => T): T {
    const parts = name.split('/');
    const last = parts.pop() as string;
    if (last === '..' || parts.some((part) => NO_NAMES.has(part)) || name.includes('\0')) {
      throw new Error(`${JSON.stringify(name)} is no name of ours`);
    }
    let folder = this.#fd;
    try {
      for (const [depth, part] of parts.entries()) {
        const next = this.#openFolder(folder, part, parts.slice(0, depth + 1));
        if (folder !== this.#fd) closeSync(folder);
        folder = next;
      }
      return use(join(this.#descriptorPath(folder), last), folder);
    } catch (error) {
      // A path through a descriptor says nothing to a person.
      if (codeOf(error) !== undefined) Reflect.set(error as object, 'path', join(this.path, name));
      throw error;
    } finally {
      if (folder !== this.#fd) closeSync(folder);
    }
  }

  #openFolder(parent: number, name: string, parts: readonly string[]): number {
    try {
      return openSync(join(this.#descriptorPath(parent), name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    } catch (error) {
      if (!OTHER_KIND.has(codeOf(error) ?? '')) throw error;
      throw new NotOurs(join(this.path, ...parts), 'folder');
    }
  }

  #descriptorPath(fd: number): string {
    return `/proc/self/fd/${fd}`;
  }
}

/**
 * Makes a folder that a person named, and those above it. Durable when it returns, with all names on its file system that lead to it:
 * a killed process may have made some of them and not synced them. Returns the first that was made, if any. @throws the error of the disk
 */
export function makeNamedFolder(path: string): string | undefined {
  const madeFrom = mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER_MODE });
  const { dev } = statSync(path);
  for (let each = realpathSync(path); each !== dirname(each); each = dirname(each)) {
    if (statSync(dirname(each)).dev !== dev || !syncNamedFolder(dirname(each))) break;
  }
  return madeFrom;
}

/** Durable if it returns true. A folder that we may not open is none that we have made. */
function syncNamedFolder(path: string): boolean {
  try {
    const fd = openSync(path, O_RDONLY | O_DIRECTORY);
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    return true;
  } catch (error) {
    if (codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM') return false;
    throw error;
  }
}
