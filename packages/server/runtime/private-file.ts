/**
 * Why: the runtime frames every stream in chunks and drops its Content-Length (oven-sh/bun#10507), but sends a file with its length.
 * So proven bytes are sent from files. On Linux they have no name: nothing but this process can reach them, and a crash leaves
 * nothing of them.
 * Since: Bun 1.4.5 or earlier.
 * Without it: large answers have no length, or all of their bytes are in memory: 63 MiB for each, where 8 are allowed. `node:http`
 * keeps the length, at 35 µs of CPU for a small answer instead of 14.
 * Goes when: the runtime keeps the Content-Length of a stream.
 */

import * as fs from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';

export interface PrivateFile {
  readonly fd: number;
  /** by which the runtime opens the file again, for as long as `fd` is open */
  readonly path: string;
  /** the same for every opening of the file */
  readonly identity: string;
}

const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';
const DESCRIPTORS = '/proc/self/fd';
/**
 * For each write the system looks for one run of free memory. Where files fill the memory a longer run is rare, and the system moves
 * other pages to make one: that took more than the write itself.
 */
export const WRITTEN_AT_ONCE_BYTES = 256 * 1024;

/** The parts of the file that are not written yet take no room. */
export function createPrivateFile(folder: string, bytes: number): PrivateFile {
  const path = join(folder, `holdfast-${crypto.randomUUID()}`);
  let fd: number | undefined;
  try {
    fd = fs.openSync(path, 'wx+', PRIVATE_FILE_MODE);
    if (CAN_OPEN_DESCRIPTORS) fs.unlinkSync(path);
    fs.ftruncateSync(fd, bytes);
    return { fd, path: CAN_OPEN_DESCRIPTORS ? `${DESCRIPTORS}/${fd}` : path, identity: identityOf(fd) };
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd);
    fs.rmSync(path, { force: true });
    throw error;
  }
}

/** Closes the file here; the runtime can still read it where it has opened it. */
export function closePrivateFile({ fd, path }: PrivateFile): void {
  fs.closeSync(fd);
  if (!CAN_OPEN_DESCRIPTORS) fs.rmSync(path, { force: true });
}

export async function writeAll({ fd }: PrivateFile, bytes: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    written += await write(fd, bytes, written, position + written);
  }
}

function write(fd: number, bytes: Uint8Array, from: number, position: number): Promise<number> {
  const length = Math.min(WRITTEN_AT_ONCE_BYTES, bytes.length - from);
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, from, length, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}

/** How often this process has each file open, by identity; empty if the system does not tell. */
export function countOpenings(): ReadonlyMap<string, number> {
  const openings = new Map<string, number>();
  for (const name of CAN_OPEN_DESCRIPTORS ? fs.readdirSync(DESCRIPTORS) : []) {
    try {
      const identity = identityOf(Number(name));
      openings.set(identity, (openings.get(identity) ?? 0) + 1);
    } catch (error) {
      // The descriptor was closed after it was listed.
      if ((error as { code?: unknown }).code !== 'EBADF') throw error;
    }
  }
  return openings;
}

function identityOf(fd: number): string {
  const { dev, ino } = fs.fstatSync(fd);
  return `${dev}:${ino}`;
}
