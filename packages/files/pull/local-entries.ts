/** Entries of folders of this machine: what they are, and what their names may be taken for. */
import { closeSync, constants, fsyncSync, lstatSync, openSync, type Stats } from 'node:fs';
import type { FoundEntry } from '@holdfast/client/internal';

/** Follows no link, and waits for no pipe. */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export function findStat(at: Buffer): Stats | undefined {
  return lstatSync(at, { throwIfNoEntry: false });
}

export function kindOf(stat: Stats): FoundEntry['kind'] {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'folder';
  return stat.isSymbolicLink() ? 'link' : 'other';
}

/** Folders stay, and so do devices, pipes and sockets. */
export function isReplaceable(stat: Stats): boolean {
  return stat.isFile() || stat.isSymbolicLink();
}

/** `name` with the first ASCII letter in the other case; undefined without one. */
export function swapCase(name: Buffer): Buffer | undefined {
  const at = name.findIndex((byte) => (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a));
  if (at === -1) return undefined;
  const swapped = Buffer.from(name);
  swapped[at] = (swapped[at] as number) ^ 0x20;
  return swapped;
}

export function syncFolder(folder: Buffer): void {
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
