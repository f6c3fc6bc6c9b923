/** Looks at the free space of the data folder's file system, at most once a second. */
import { statfsSync } from 'node:fs';
import type { FreeSpace } from '../core/free-space.ts';

const LOOK_MS = 1000;
/** Kept free unless the operator says otherwise: the smaller of these. */
const MIN_FREE_BYTES_DEFAULT = 1024 * 1024 * 1024;
const MIN_FREE_PART_DEFAULT = 0.05;

export class DiskSpace implements FreeSpace {
  readonly #folder: string;
  readonly #minFreeBytes: number | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** above what is kept free, when last looked */
  #spareBytes = Number.POSITIVE_INFINITY;
  #keptFreeBytes = 0;

  /** `minFreeBytes` undefined: the default. */
  constructor(folder: string, minFreeBytes: number | undefined) {
    this.#folder = folder;
    this.#minFreeBytes = minFreeBytes;
  }

  /** bytes */
  get keptFree(): number {
    if (this.#minFreeBytes !== 0) this.isLowFor(0);
    return this.#keptFreeBytes;
  }

  isLowFor(bytes: number): boolean {
    // Nothing is kept free: the writes themselves say when the disk is full, and when it no longer is.
    if (this.#minFreeBytes === 0) return false;
    const now = performance.now();
    if (now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#look();
    }
    return bytes > this.#spareBytes;
  }

  #look(): void {
    try {
      const { bavail, blocks, bsize } = statfsSync(this.#folder);
      const part = Math.floor(blocks * bsize * MIN_FREE_PART_DEFAULT);
      this.#keptFreeBytes = this.#minFreeBytes ?? Math.min(MIN_FREE_BYTES_DEFAULT, part);
      this.#spareBytes = bavail * bsize - this.#keptFreeBytes;
    } catch {
      // A folder that cannot be looked at fails the writes themselves, which say why.
      this.#spareBytes = Number.POSITIVE_INFINITY;
    }
  }
}
