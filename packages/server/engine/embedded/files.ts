/** The file operations the content store makes: a thin seam, so that tests can make a disk full, broken or away. */
import { constants } from 'node:fs';
import * as fs from 'node:fs/promises';

export interface OpenFile {
  /** Fills `buffer` from `position` on; returns the bytes read, fewer only at the end of the file. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Writes all of `buffer`. */
  write(buffer: Uint8Array, position: number): Promise<void>;
  size(): Promise<number>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface Files {
  openToRead(path: string): Promise<OpenFile>;
  /** Fails with EEXIST when there is such a file. */
  create(path: string): Promise<OpenFile>;
  link(from: string, to: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Makes the folder's entries durable. */
  syncFolder(path: string): Promise<void>;
  makeFolder(path: string): Promise<void>;
  list(path: string): Promise<string[]>;
  readText(path: string): Promise<string>;
  /** Names the file itself, whatever its path; undefined when there is none. */
  findIdentity(path: string): Promise<string | undefined>;
}

class DiskFile implements OpenFile {
  readonly #handle: fs.FileHandle;

  constructor(handle: fs.FileHandle) {
    this.#handle = handle;
  }

  async read(buffer: Uint8Array, position: number): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const { bytesRead } = await this.#handle.read(
        buffer,
        filled,
        buffer.length - filled,
        position + filled,
      );
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return filled;
  }

  async write(buffer: Uint8Array, position: number): Promise<void> {
    let written = 0;
    while (written < buffer.length) {
      const { bytesWritten } = await this.#handle.write(
        buffer,
        written,
        buffer.length - written,
        position + written,
      );
      written += bytesWritten;
    }
  }

  async size(): Promise<number> {
    return (await this.#handle.stat()).size;
  }

  sync(): Promise<void> {
    return this.#handle.sync();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

export const diskFiles: Files = {
  openToRead: async (path) => new DiskFile(await fs.open(path, 'r')),
  create: async (path) =>
    new DiskFile(await fs.open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)),
  link: (from, to) => fs.link(from, to),
  rename: (from, to) => fs.rename(from, to),
  remove: (path) => fs.unlink(path),
  async syncFolder(path) {
    const handle = await fs.open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  async makeFolder(path) {
    await fs.mkdir(path, { recursive: true, mode: 0o700 });
  },
  list: (path) => fs.readdir(path),
  readText: (path) => fs.readFile(path, 'utf8'),
  async findIdentity(path) {
    try {
      const { dev, ino } = await fs.stat(path);
      return `${dev}:${ino}`;
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
      throw error;
    }
  },
};
