/** Whether what a pull has still to write fits on the disk, asked before it writes: a full disk harms others, and takes long to fill. */
import { lstatSync, readdirSync, statfsSync } from 'node:fs';
import { PullTargetError } from '@holdfast/client';
import { formatBytes } from '@holdfast/protocol';
import { isPartialName } from './partial-names.ts';

/** `folder` is the open folder of the target, `base` what it is called. Throws PullTargetError. */
export function assertRoom(base: string, folder: Buffer, bytes: number): void {
  const free = findFreeBytes(folder);
  if (free === undefined || bytes <= free) return;
  // What interrupted pulls left is taken up again or taken away: it is room too. Looked for only here, as it takes a while.
  const room = free + sumOfPartials(folder);
  if (bytes <= room) return;
  throw new PullTargetError(
    `the tree has ${formatBytes(bytes)} that are not in ${base} yet, and its disk has room for ${formatBytes(room)}: free some space, choose another place, or pull a part of it (HASH/path); no file was written`,
  );
}

/** `undefined` where the file system does not say. */
function findFreeBytes(folder: Buffer): number | undefined {
  try {
    const { bavail, bsize, blocks } = statfsSync(folder);
    // Some file systems have no blocks to count.
    return blocks === 0 ? undefined : bavail * bsize;
  } catch {
    return undefined;
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
