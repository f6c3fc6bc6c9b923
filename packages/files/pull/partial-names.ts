/** Files that are not whole yet: their names, and reading and writing them. */
import {
  close,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  read,
  readdirSync,
  readSync,
  renameSync,
  unlinkSync,
  write,
} from 'node:fs';
import { promisify } from 'node:util';
import type { Hash, NewFile } from '@holdfast/client/internal';
import { isProcessRunning } from '../process-running.ts';
import { dataParts } from './sparse.ts';

const readAt = promisify(read);
const writeAt = promisify(write);
export const closeLater = promisify(close);

/** In the place of a hash: a small file is written in one go, so there is nothing to find again. */
export const NO_HASH = '0'.repeat(64);

const PARTIAL_NAME = /^\.holdfast-([0-9a-f]{16})-(\d{1,10})-[0-9a-f]{8}\.part$/;
export const CREATE_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const REOPEN_FLAGS = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Names that pulls of this process write to. */
const written = new Set<string>();

/** Random at the start: another machine that shares the folder may have a process of the same number. */
let nextNumber = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;

/** A name that no other pull uses, until `forgetPartialName`: `.holdfast-<of the file>-<process>-<number>.part`. */
export function makePartialName(hash: Hash): string {
  nextNumber = (nextNumber + 1) >>> 0;
  const name = `.holdfast-${hash.slice(0, 16)}-${process.pid}-${nextNumber.toString(16).padStart(8, '0')}.part`;
  written.add(name);
  return name;
}

/** Nothing is written under it any more: what is left of it is abandoned. */
export function forgetPartialName(name: string): void {
  written.delete(name);
}

export interface AbandonedFile {
  readonly name: string;
  /** the first characters of the hash of the file it was to be */
  readonly hashStart: string;
}

/** Whether a pull could have left this: then it may be an entry of a tree all the same. */
export function isPartialName(name: Uint8Array): boolean {
  return PARTIAL_NAME.test(Buffer.from(name).toString('latin1'));
}

/** Files in a folder that pulls have left which are over. */
export function listAbandoned(folder: Buffer): AbandonedFile[] {
  // Other names need not be text: as latin1 they are only looked through.
  return readdirSync(folder, { encoding: 'latin1' }).flatMap((name) => {
    const [, hashStart, pid] = PARTIAL_NAME.exec(name) ?? [];
    if (hashStart === undefined || isWritten(name, Number(pid))) return [];
    // A pull leaves no folders.
    const stat = lstatSync(Buffer.concat([folder, Buffer.from(name)]), { throwIfNoEntry: false });
    return stat === undefined || stat.isDirectory() ? [] : [{ name, hashStart }];
  });
}

/** Another pull's file is nobody's once its process is gone. */
function isWritten(name: string, pid: number): boolean {
  return pid === process.pid ? written.has(name) : isProcessRunning(pid);
}

/** Before the umask, which the system takes off a new file by itself; never set-uid, set-gid or sticky. */
export function modeOf({ isExecutable }: Pick<NewFile, 'isExecutable'>): number {
  return isExecutable ? 0o777 : 0o666;
}

export function createPartial(path: Buffer, file: Pick<NewFile, 'isExecutable'>): number {
  return openSync(path, CREATE_FLAGS, modeOf(file));
}

/** Renames an abandoned file to `path`, which makes it ours alone: its descriptor; undefined when no pull of this user left it. */
export function findTakenOver(abandoned: Buffer, path: Buffer, file: NewFile): number | undefined {
  try {
    renameSync(abandoned, path);
  } catch {
    // Someone else was first, or it is gone: then there is nothing to take over.
    return undefined;
  }
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, REOPEN_FLAGS);
    const stat = fstatSync(descriptor);
    if (stat.isFile() && stat.nlink === 1 && stat.uid === process.geteuid?.()) {
      fchmodSync(descriptor, modeOf(file) & ~process.umask());
      return descriptor;
    }
  } catch {
    // A link, or a file without rights, is not taken over. The caller makes a new one.
  }
  if (descriptor !== undefined) closeSync(descriptor);
  unlinkSync(path);
  return undefined;
}

/** The bytes that exist of these; shorter at the end of the file. */
export async function readRange(descriptor: number, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const bytesRead =
      // Reading so few bytes takes less than asking another thread.
      length <= 64 * 1024
        ? readSync(descriptor, bytes, done, length - done, offset + done)
        : (await readAt(descriptor, bytes, done, length - done, offset + done)).bytesRead;
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

export async function writeRange(descriptor: number, offset: number, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await writeAt(descriptor, bytes, done, bytes.length - done, offset + done)).bytesWritten;
  }
}

/** Leaves out blocks of zeros: nothing was written at that place of the file before. */
export async function writeRangeSparsely(
  descriptor: number,
  offset: number,
  bytes: Uint8Array,
): Promise<void> {
  for (const part of dataParts(offset, bytes)) await writeRange(descriptor, part.offset, part.bytes);
}

/** Length and, when asked for, durability. */
export function sealPartial(
  descriptor: number,
  options: { readonly bytes: number; readonly fsync: boolean },
): void {
  if (fstatSync(descriptor).size !== options.bytes) ftruncateSync(descriptor, options.bytes);
  if (options.fsync) fsyncSync(descriptor);
}

export function closeQuietly(descriptor: number): void {
  closeLater(descriptor).catch(() => undefined);
}
