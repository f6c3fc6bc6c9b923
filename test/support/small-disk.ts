/** A small file system in memory, mounted for one test, that can be filled up, emptied and made read-only. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from './temp-folder.ts';

export interface SmallDisk {
  /** where it is mounted */
  readonly path: string;
  /** takes all space but `leftBytes` */
  fill(leftBytes: number): void;
  /** gives back what `fill` took */
  empty(): void;
  setReadOnly(readOnly: boolean): void;
  remove(): void;
}

const CHUNK_BYTES = 4096;

/** Needs the right to mount (root). `inodes`: 0 is as many as are asked for. */
export function mountSmallDisk(mebibytes: number, inodes = 0): SmallDisk {
  const folder = makeTempFolder('disk');
  const path = join(folder.path, 'mounted');
  mkdirSync(path);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,nr_inodes=${inodes}`, 'tmpfs', path]);
  const ballast = join(path, 'ballast');
  return {
    path,
    fill(leftBytes) {
      const file = openSync(ballast, 'a');
      const chunk = Buffer.alloc(CHUNK_BYTES, 1);
      try {
        for (let left = freeBytes(path); left - CHUNK_BYTES >= leftBytes; left = freeBytes(path)) {
          writeSync(file, chunk);
        }
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(ballast, { force: true }),
    setReadOnly: (readOnly) => void execFileSync('mount', ['-o', `remount,${readOnly ? 'ro' : 'rw'}`, path]),
    remove() {
      execFileSync('umount', ['--lazy', path]);
      folder.remove();
    },
  };
}

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}
