/** Whether what a pull has still to write fits on the disk, asked before it writes: a full disk harms others, and takes long to fill. */
import { lstatSync, readdirSync, statfsSync } from 'node:fs';
import { type MissingEntries, PullTargetError } from '@holdfast/client/internal';
import { formatBytes, formatCount } from '@holdfast/protocol';
import { isPartialName } from './partial-names.ts';

/** `folder` is the open folder of the target, `base` what it is called. Throws PullTargetError. */
export function assertRoom(
  base: string,
  folder: Buffer,
  { entries, bytes: contentBytes }: MissingEntries,
): void {
  const { free, freeEntries } = findFree(folder);
  if (freeEntries !== undefined && entries > freeEntries) {
    throw new PullTargetError(
      `the tree has ${formatCount(entries)} entries that are not in ${base} yet, and its file system can hold ${formatCount(freeEntries)} more: choose another place, or pull a part of it (HASH/path); no file was written`,
    );
  }
  // A name and an inode take at least 64 bytes, wherever they are kept.
  const bytes = Math.max(contentBytes, entries * 64);
  if (free === undefined || bytes <= free) return;
  // Leftovers of interrupted pulls are reused or removed: they count as room. They are looked for only here, as it takes a while.
  const room = free + sumOfPartials(folder);
  if (bytes <= room) return;
  throw new PullTargetError(
    `the tree has ${formatBytes(bytes)} that are not in ${base} yet, and its disk has room for ${formatBytes(room)}: free some space, choose another place, or pull a part of it (HASH/path); no file was written`,
  );
}

/** Without what the file system does not say. */
function findFree(folder: Buffer): { readonly free?: number; readonly freeEntries?: number } {
  try {
    const { bavail, bsize, blocks, files, ffree } = statfsSync(folder);
    // Some file systems have no blocks to count, or make inodes as they go.
    return {
      ...(blocks === 0 ? {} : { free: bavail * bsize }),
      ...(files === 0 ? {} : { freeEntries: ffree }),
    };
  } catch {
    return {};
  }
}

function sumOfPartials(folder: Buffer): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !isPartialName(Buffer.from(entry.name))) continue;
    bytes += lstatSync(`${entry.parentPath}/${entry.name}`, { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}
