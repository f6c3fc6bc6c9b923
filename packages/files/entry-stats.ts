/** The attributes of an entry that a push uses; the `Stats` of the runtime fit too. */

import { constants } from 'node:fs';
import { BIG_NS_PER_S, NS_PER_MS, SECOND_MS } from '@holdfast/protocol';

const { S_IFMT, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFBLK, S_IFCHR } = constants;

/** The length of what `statx` of Linux fills in, the same on every processor. */
export const STATX_BYTES = 256;

/** Instants are ms since the epoch. */
export interface FileStats {
  readonly mode: number;
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  /** only of a look by `statx` */
  readonly mtimeNs?: bigint;
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
  isSocket(): boolean;
  isFIFO(): boolean;
  isBlockDevice(): boolean;
  isCharacterDevice(): boolean;
}

export class EntryStats implements FileStats {
  readonly mode: number;
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly #mtimeSeconds: number;
  readonly #mtimeNanoseconds: number;

  private constructor(view: DataView) {
    this.mode = view.getUint16(28, true);
    this.ino = longAt(view, 32);
    this.size = longAt(view, 40);
    this.ctimeMs = longAt(view, 96) * SECOND_MS + view.getUint32(104, true) / NS_PER_MS;
    this.#mtimeSeconds = longAt(view, 112);
    this.#mtimeNanoseconds = view.getUint32(120, true);
    // As a float it is what the runtime's own `stat` gives.
    this.mtimeMs = this.#mtimeSeconds * SECOND_MS + this.#mtimeNanoseconds / NS_PER_MS;
  }

  /** `view`: of what `statx` filled in. */
  static from(view: DataView): EntryStats {
    return new EntryStats(view);
  }

  get mtimeNs(): bigint {
    return BigInt(this.#mtimeSeconds) * BIG_NS_PER_S + BigInt(this.#mtimeNanoseconds);
  }

  isFile(): boolean {
    return (this.mode & S_IFMT) === S_IFREG;
  }

  isDirectory(): boolean {
    return (this.mode & S_IFMT) === S_IFDIR;
  }

  isSymbolicLink(): boolean {
    return (this.mode & S_IFMT) === S_IFLNK;
  }

  isSocket(): boolean {
    return (this.mode & S_IFMT) === S_IFSOCK;
  }

  isFIFO(): boolean {
    return (this.mode & S_IFMT) === S_IFIFO;
  }

  isBlockDevice(): boolean {
    return (this.mode & S_IFMT) === S_IFBLK;
  }

  isCharacterDevice(): boolean {
    return (this.mode & S_IFMT) === S_IFCHR;
  }
}

/** A signed number of 64 bits, exact to 2^53: reading it as a big integer takes longer. */
function longAt(view: DataView, offset: number): number {
  return view.getInt32(offset + 4, true) * 2 ** 32 + view.getUint32(offset, true);
}
