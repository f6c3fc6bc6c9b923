/** The file operations the content store makes: a thin seam, so that tests can make a disk full, broken or away. */
import * as fs from 'node:fs';
import { link, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface OpenFile {
  /** Fills `buffer` from `position` on; returns the bytes read, fewer only at the end of the file. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** The same, at once: holds up the event loop if the bytes are not in the operating system's memory. */
  readNow(buffer: Uint8Array, position: number): number;
  /** Writes all of `buffer`. */
  write(buffer: Uint8Array, position: number): Promise<void>;
  /** An open file's size and its closing, when nothing was written, ask nothing of the disk. */
  sizeNow(): number;
  closeNow(): void;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file that no path leads to. */
export interface UnnamedFile {
  /** Writes all of `buffer`. */
  write(buffer: Uint8Array, position: number): Promise<void>;
  /** Its first `length` bytes. The runtime opens it anew when it sends it, which must be before `close`. */
  toBlob(length: number): Blob;
  /** Whoever has it open keeps it. */
  close(): void;
}

export interface OpenFolder {
  /** Makes the folder's entries durable. */
  sync(): Promise<void>;
  closeNow(): void;
}

export interface Files {
  openToRead(path: string): Promise<OpenFile>;
  /** Fails with EEXIST when there is such a file. */
  create(path: string): Promise<OpenFile>;
  createUnnamed(folder: string): Promise<UnnamedFile>;
  link(from: string, to: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  openFolder(path: string): Promise<OpenFolder>;
  /** Opens it, makes its entries durable, closes it. */
  syncFolder(path: string): Promise<void>;
  /** Makes those that are not there, with their parents. */
  makeFolders(paths: readonly string[]): void;
  list(path: string): Promise<string[]>;
  readText(path: string): Promise<string>;
  /** Names the file itself, whatever its path; undefined when there is none. */
  findIdentity(path: string): Promise<string | undefined>;
}

/**
 * A raw descriptor, not a FileHandle: Bun ends the process for a FileHandle that is collected while open, and a response
 * body that nobody reads or cancels must not. The registry closes what was left open.
 */
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

  readNow(buffer: Uint8Array, position: number): number {
    let filled = 0;
    while (filled < buffer.length) {
      const bytes = fs.readSync(this.#fd, buffer, filled, buffer.length - filled, position + filled);
      if (bytes === 0) break;
      filled += bytes;
    }
    return filled;
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
const syncFd = promisify(fs.fsync);

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

/** Elsewhere a file keeps its name until it is closed, because only Linux opens a descriptor by a path. */
const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';

async function createUnnamed(folder: string): Promise<UnnamedFile> {
  const path = join(folder, crypto.randomUUID());
  const { O_RDWR, O_CREAT, O_EXCL } = fs.constants;
  const fd = await openFd(path, O_RDWR | O_CREAT | O_EXCL, 0o600);
  if (CAN_OPEN_DESCRIPTORS) fs.unlinkSync(path);
  const file = new DiskFile(fd);
  return {
    write: (buffer, position) => file.write(buffer, position),
    toBlob: (length) => Bun.file(CAN_OPEN_DESCRIPTORS ? `/proc/self/fd/${fd}` : path).slice(0, length),
    close() {
      file.closeNow();
      if (!CAN_OPEN_DESCRIPTORS) fs.rmSync(path, { force: true });
    },
  };
}

export const diskFiles: Files = {
  openToRead: async (path) => new DiskFile(await openFd(path, fs.constants.O_RDONLY)),
  create: async (path) =>
    new DiskFile(
      await openFd(path, fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_EXCL, 0o600),
    ),
  createUnnamed,
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
    for (const path of paths) fs.mkdirSync(path, { recursive: true, mode: 0o700 });
  },
  list: (path) => readdir(path),
  readText: (path) => readFile(path, 'utf8'),
  async findIdentity(path) {
    try {
      const { dev, ino } = await stat(path);
      return `${dev}:${ino}`;
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
      throw error;
    }
  },
};
