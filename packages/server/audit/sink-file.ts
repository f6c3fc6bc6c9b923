/** The file of the audit log: opened without waiting for a reader, private to its owner, and reopened after rotation. */

import { close, constants, fchmod, fstat, open, type Stats, stat, write, writeSync } from 'node:fs';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { openOwnDescription, openStreamOutput } from '../standard-stream.ts';

export type AuditTarget = { readonly kind: 'file'; readonly path: string } | { readonly kind: 'stdout' };

export interface OpenFile {
  readonly fd: number;
  readonly stats: Stats;
  /** writes up to this many bytes are never mixed with those of other processes */
  readonly wholeBytesMax: number;
}

const STDOUT = 1;
/** A FIFO without a reader fails at once, and a full one reports that. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY;

/** Rejects with the error of the system. */
export async function openTarget(target: AuditTarget): Promise<OpenFile> {
  if (target.kind === 'file') return openPath(target.path, FLAGS | constants.O_CREAT);
  const stats = await statOf(STDOUT);
  // Other writers to stdout keep a pipe or terminal that blocks.
  const own = stats.isFile() ? undefined : openOwnDescription(STDOUT);
  return describe(own ?? STDOUT, stats);
}

export function isSameFile(one: OpenFile, other: OpenFile | undefined): boolean {
  return one.stats.ino === other?.stats.ino && one.stats.dev === other.stats.dev;
}

/** Whether the path still leads to the open file: it may have been rotated or deleted. */
export async function isStillThere(target: AuditTarget, { stats }: OpenFile): Promise<boolean> {
  if (target.kind === 'stdout') return true;
  const found = await asPromise<Stats>((settle) => stat(target.path, settle)).catch(() => undefined);
  return found !== undefined && found.ino === stats.ino && found.dev === stats.dev;
}

/** Whether the target is a socket, which cannot be a log. */
export async function isSocket(target: AuditTarget): Promise<boolean> {
  if (target.kind === 'stdout') return false;
  const found = await asPromise<Stats>((settle) => stat(target.path, settle)).catch(() => undefined);
  return found?.isSocket() === true;
}

/** Resolves with how many bytes were taken. */
export function writeTo(fd: number, bytes: Uint8Array): Promise<number> {
  return asPromise((settle) => write(fd, bytes, settle));
}

/** The last write of the process, synchronous. Throws the system's error. */
export function writeLastTo({ fd }: OpenFile, bytes: Uint8Array): void {
  if (fd === STDOUT) openStreamOutput(fd).writeLast(bytes);
  else writeSync(fd, bytes);
}

/** Errors of closing are ignored: they concern bytes that were judged when written. */
export function closeFile({ fd }: OpenFile): void {
  if (fd !== STDOUT) close(fd, () => undefined);
}

async function openPath(path: string, flags: number): Promise<OpenFile> {
  const fd = await asPromise<number>((settle) => open(path, flags, PRIVATE_FILE_MODE, settle));
  try {
    const stats = await statOf(fd);
    if (stats.isFile() && (stats.mode & 0o077) !== 0) {
      const mode = stats.mode & 0o777 & ~0o077;
      await asPromise<void>((settle) => fchmod(fd, mode, settle));
    }
    return describe(fd, stats);
  } catch (error) {
    close(fd, () => undefined);
    throw error;
  }
}

function describe(fd: number, stats: Stats): OpenFile {
  return { fd, stats, wholeBytesMax: stats.isFile() ? 256 * 1024 : 4096 };
}

function statOf(fd: number): Promise<Stats> {
  return asPromise((settle) => fstat(fd, settle));
}

function asPromise<T>(call: (settle: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, value) => (error ? reject(error) : resolve(value as T)));
  });
}
