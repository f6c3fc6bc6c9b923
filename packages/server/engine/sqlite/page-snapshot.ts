/**
 * Reads the pages of a database as they are at one commit, past SQLite, while others write. An open read transaction holds the
 * checkpoints back, so the file holds no commit later than that transaction. Commits that are later, or not yet copied back, are in
 * the write-ahead log. The index of that log (the -shm file) says which of its frames are committed.
 *
 * The formats are those of https://www.sqlite.org/fileformat2.html and https://www.sqlite.org/walformat.html.
 */
import { Database } from 'bun:sqlite';
import { fstatSync, openSync, readSync } from 'node:fs';
import type { PageSnapshot } from '../backup-ports.ts';
import { DatabaseDamaged } from './database.ts';

const SALT_BYTES = 8;
/** Where the fields of a write-ahead log and of its index begin, and the bytes of their headers (sqlite.org/walformat.html). */
const LOG = { headerBytes: 32, salt: 16 } as const;
const FRAME = { headerBytes: 24, salt: 8 } as const;
/** The header of the index has two copies: a writer changes one after the other. */
const INDEX = { copyBytes: 48, changes: 8, isInitialized: 12, frames: 16, pages: 20, salt: 32 } as const;

/** The data of the index of the log about the last commit. */
interface LogIndex {
  /** counts up by one with each commit */
  readonly changes: number;
  readonly frames: number;
  readonly pages: number;
  readonly salt: Buffer;
}

export class SqlitePageSnapshot implements PageSnapshot {
  readonly pageBytes: number;
  readonly pageCount: number;
  readonly #file: number;
  readonly #log: number;
  readonly #salt: Buffer;
  /** the last committed frame of each page that the log holds; empty once the log has restarted */
  #frames: ReadonlyMap<number, number>;

  /** The database is in WAL mode and `pin` is an open read transaction on it. */
  constructor(path: string, pin: Database) {
    using statement = pin.prepare<{ page_size: number }, []>('PRAGMA page_size');
    this.pageBytes = statement.get()?.page_size ?? 0;
    this.#file = openSync(path, 'r');
    this.#log = openSync(`${path}-wal`, 'r');
    const index = openSync(`${path}-shm`, 'r');
    // Between the two reads the log may restart, but not twice: a commit of the new log holds checkpoints back.
    const found = this.#readFrames(readIndex(index)) ?? this.#readFrames(readIndex(index));
    if (found === undefined)
      throw new DatabaseDamaged(`the write-ahead log of ${path} does not fit its index`);
    this.#frames = found.frames;
    this.#salt = found.index.salt;
    this.pageCount = found.index.pages > 0 ? found.index.pages : this.#countFilePages();
  }

  read(first: number, count: number, buffer: Uint8Array): void {
    readWhole(this.#file, buffer, count * this.pageBytes, first * this.pageBytes);
    if (this.#frames.size === 0) return;
    for (let page = first; page < first + count; page += 1) {
      const frame = this.#frames.get(page + 1);
      if (frame === undefined) continue;
      const at = (page - first) * this.pageBytes;
      const target = buffer.subarray(at, at + this.pageBytes);
      const bytes = readSync(this.#log, target, 0, this.pageBytes, this.#frameAt(frame) + FRAME.headerBytes);
      if (bytes === this.pageBytes && this.#readLogSalt().equals(this.#salt)) continue;
      // A log restarts only if the file has all its commits. So the file has the contents of its frames.
      this.#frames = new Map();
      readWhole(this.#file, buffer, count * this.pageBytes, first * this.pageBytes);
      return;
    }
  }

  /** Returns undefined if the log restarted after its index was read. */
  #readFrames(index: LogIndex): { index: LogIndex; frames: ReadonlyMap<number, number> } | undefined {
    const frames = new Map<number, number>();
    const header = Buffer.alloc(FRAME.headerBytes);
    for (let frame = 0; frame < index.frames; frame += 1) {
      const bytes = readSync(this.#log, header, 0, FRAME.headerBytes, this.#frameAt(frame));
      const salt = header.subarray(FRAME.salt, FRAME.salt + SALT_BYTES);
      if (bytes < FRAME.headerBytes || !salt.equals(index.salt)) return undefined;
      frames.set(header.readUInt32BE(0), frame);
    }
    if (index.frames > 0 && !this.#readLogSalt().equals(index.salt)) return undefined;
    return { index, frames };
  }

  #readLogSalt(): Buffer {
    const salt = Buffer.alloc(SALT_BYTES);
    readSync(this.#log, salt, 0, SALT_BYTES, LOG.salt);
    return salt;
  }

  #frameAt(frame: number): number {
    return LOG.headerBytes + frame * (FRAME.headerBytes + this.pageBytes);
  }

  #countFilePages(): number {
    return Math.floor(fstatSync(this.#file).size / this.pageBytes);
  }
}

/** The two copies differ while a commit is being told of: then they are read again. @throws DatabaseDamaged */
function readIndex(file: number): LogIndex {
  const bytes = Buffer.alloc(2 * INDEX.copyBytes);
  for (let attempt = 0; attempt < 10_000; attempt += 1) {
    readSync(file, bytes, 0, bytes.length, 0);
    const first = bytes.subarray(0, INDEX.copyBytes);
    if (first[INDEX.isInitialized] === 0 || !first.equals(bytes.subarray(INDEX.copyBytes))) continue;
    // The index is in the byte order of the machine, the salt in that of the log.
    return {
      changes: first.readUInt32LE(INDEX.changes),
      frames: first.readUInt32LE(INDEX.frames),
      pages: first.readUInt32LE(INDEX.pages),
      salt: Buffer.from(first.subarray(INDEX.salt, INDEX.salt + SALT_BYTES)),
    };
  }
  throw new DatabaseDamaged('the index of a write-ahead log cannot be read');
}

/** Call while the database is pinned: then its index is there. */
export function watchCommits(path: string): () => number {
  const index = openSync(`${path}-shm`, 'r');
  return () => readIndex(index).changes;
}

/** Fills `bytes` of `buffer`. Bytes after the end of the file become zeros, because those pages are in the log. */
function readWhole(file: number, buffer: Uint8Array, bytes: number, position: number): void {
  let filled = 0;
  while (filled < bytes) {
    const read = readSync(file, buffer, filled, bytes - filled, position + filled);
    if (read === 0) break;
    filled += read;
  }
  buffer.fill(0, filled, bytes);
}

/** Keeps the transactions: the garbage collector would close a database without a reference. */
const PINS: Database[] = [];

/** Pins the database only while `read` runs. The connection stays: to close it would drop the locks of the others. */
export function withPin<T>(path: string, read: (pin: Database) => T): T {
  const pin = pinDatabase(path);
  try {
    return read(pin);
  } finally {
    pin.run('COMMIT');
  }
}

/** Begins a read transaction that ends with the process. Makes nothing. */
export function pinDatabase(path: string): Database {
  // SQLite may have to mend the index of the log, so the connection may write; the database it leaves alone.
  const pin = new Database(path, { readwrite: true, create: false });
  pin.run(`PRAGMA busy_timeout = 10000`);
  pin.run('PRAGMA query_only = ON');
  pin.run('BEGIN');
  pin.run('SELECT count(*) FROM sqlite_master');
  PINS.push(pin);
  return pin;
}
