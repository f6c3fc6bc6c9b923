/** Looks at the free space and inodes of the data folder's file system, at most once a second. */
import { statfsSync } from 'node:fs';
import type { FreeSpace } from '../core/quotas.ts';

const MIN_FREE_PART_DEFAULT = 0.05;

export class DiskSpace implements FreeSpace {
  readonly #folder: string;
  readonly #minFreeBytes: number | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** bytes above the reserve, at the last reading */
  #spareBytes = Number.POSITIVE_INFINITY;
  #hasInodes = true;
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
    if (now - this.#lookedAt >= 1000) {
      this.#lookedAt = now;
      this.#look();
    }
    return bytes > this.#spareBytes || !this.#hasInodes;
  }

  #look(): void {
    try {
      const { bavail, blocks, bsize, files, ffree } = statfsSync(this.#folder);
      const part = Math.floor(blocks * bsize * MIN_FREE_PART_DEFAULT);
      // The smaller one is kept free unless the operator says otherwise.
      this.#keptFreeBytes = this.#minFreeBytes ?? Math.min(1024 * 1024 * 1024, part);
      this.#spareBytes = bavail * bsize - this.#keptFreeBytes;
      // A file system that makes inodes as it needs them says that it has none at all.
      // Rows and their journal need some inodes too.
      this.#hasInodes = files === 0 || ffree > Math.min(1000, files * MIN_FREE_PART_DEFAULT);
    } catch {
      // A folder that cannot be looked at fails the writes themselves, which say why.
      this.#spareBytes = Number.POSITIVE_INFINITY;
      this.#hasInodes = true;
    }
  }
}
