/** The file operations of the content store, as a seam: tests can make a disk full, broken or absent. */

import * as fs from 'node:fs';
import { link, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { FSYNC_DURATION } from '../../metrics/server-metrics.ts';

export interface OpenFile {
  /** Fills `buffer` from `position` on; returns the bytes read, fewer only at the end of the file. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Writes all of `buffer`. */
  write(buffer: Uint8Array, position: number): Promise<void>;
  /** The size of an open file and closing it, both without the disk if nothing was written. */
  sizeNow(): number;
  closeNow(): void;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file that is opened, read and closed without a turn of the event loop. */
export interface FileNow {
  /** Fills `buffer` from `position` on; returns the bytes read. */
  read(buffer: Uint8Array, position: number): number;
  close(): void;
}

export interface OpenFolder {
  /** Makes the folder's entries durable. */
  sync(): Promise<void>;
  closeNow(): void;
}

export interface Files {
  openToRead(path: string): Promise<OpenFile>;
  openNow(path: string): FileNow;
  /** Fails with EEXIST if the file exists. */
  create(path: string): Promise<OpenFile>;
  link(from: string, to: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  openFolder(path: string): Promise<OpenFolder>;
  /** Opens the folder, makes its entries durable, and closes it. */
  syncFolder(path: string): Promise<void>;
  /** Makes the folders that are missing, with their parents. */
  makeFolders(paths: readonly string[]): void;
  list(path: string): Promise<string[]>;
  readText(path: string): Promise<string>;
  /** Identifies the file itself, under any path; undefined if there is none. */
  findIdentity(path: string): Promise<string | undefined>;
  /** Identifies the present state of the file: each change of the file changes the result. undefined if there is none. */
  findVersion(path: string): Promise<string | undefined>;
}

/** A raw descriptor: Bun ends the process when an open FileHandle is collected, as with a body that nobody reads or cancels. */
class DiskFile implements OpenFile {
  static readonly #leftOpen = new FinalizationRegistry<number>((fd) => fs.closeSync(fd));
  readonly #fd: number;
  #isOpen = true;

  constructor(fd: number) {
    this.#fd = fd;
    DiskFile.#leftOpen.register(this, fd, this);
  }

  async read(buffer: Uint8Array, position: number): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const bytes = await readFd(this.#fd, buffer, filled, buffer.length - filled, position + filled);
      if (bytes === 0) break;
      filled += bytes;
    }
    return filled;
  }

  async write(buffer: Uint8Array, position: number): Promise<void> {
    let written = 0;
    while (written < buffer.length) {
      written += await writeFd(this.#fd, buffer, written, buffer.length - written, position + written);
    }
  }

  sizeNow(): number {
    return fs.fstatSync(this.#fd).size;
  }

  closeNow(): void {
    if (this.#forget()) fs.closeSync(this.#fd);
  }

  sync(): Promise<void> {
    return syncFd(this.#fd);
  }

  async close(): Promise<void> {
    if (this.#forget()) await closeFd(this.#fd);
  }

  #forget(): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    DiskFile.#leftOpen.unregister(this);
    return true;
  }
}

const openFd = promisify(fs.open) as (path: string, flags: number, mode?: number) => Promise<number>;
const closeFd = promisify(fs.close);
const sync = promisify(fs.fsync);
const SYNC_DURATION = {
  file: FSYNC_DURATION.with({ kind: 'file' }),
  folder: FSYNC_DURATION.with({ kind: 'folder' }),
};

async function syncFd(fd: number, kind: 'file' | 'folder' = 'file'): Promise<void> {
  const startedAt = performance.now();
  try {
    await sync(fd);
  } finally {
    SYNC_DURATION[kind].observe((performance.now() - startedAt) / 1000);
  }
}

function readFd(fd: number, buffer: Uint8Array, offset: number, length: number, position: number) {
  return new Promise<number>((resolve, reject) => {
    fs.read(fd, buffer, offset, length, position, (error, bytes) => (error ? reject(error) : resolve(bytes)));
  });
}

function writeFd(fd: number, buffer: Uint8Array, offset: number, length: number, position: number) {
  return new Promise<number>((resolve, reject) => {
    fs.write(fd, buffer, offset, length, position, (error, bytes) =>
      error ? reject(error) : resolve(bytes),
    );
  });
}

/** Guards against foreign entries: no link is followed, and no pipe is waited for. */
const READ_FLAGS = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

export const diskFiles: Files = {
  openToRead: async (path) => new DiskFile(await openFd(path, READ_FLAGS)),
  openNow(path) {
    const fd = fs.openSync(path, READ_FLAGS);
    return {
      read: (buffer, position) => fs.readSync(fd, buffer, 0, buffer.length, position),
      close: () => fs.closeSync(fd),
    };
  },
  create: async (path) =>
    new DiskFile(
      await openFd(
        path,
        fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_EXCL,
        PRIVATE_FILE_MODE,
      ),
    ),
  link,
  rename,
  remove: unlink,
  openFolder: async (path) =>
    new DiskFile(await openFd(path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)),
  async syncFolder(path) {
    const folder = await diskFiles.openFolder(path);
    try {
      await folder.sync();
    } finally {
      folder.closeNow();
    }
  },
  makeFolders(paths) {
    for (const path of paths) fs.mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER_MODE });
  },
  list: (path) => readdir(path),
  readText: (path) => readFile(path, 'utf8'),
  async findIdentity(path) {
    const found = await findStat(path);
    return found && `${found.dev}:${found.ino}`;
  },
  async findVersion(path) {
    const found = await findStat(path);
    return found && `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
  },
};

async function findStat(path: string): Promise<fs.BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
}
