/** Files the command line reads and writes, with failures a person can act on. */
import { closeSync, constants, fstatSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { describeExposure, findExposure, TEXT_FILE_BYTES_MAX } from '@holdfast/protocol';
import { CliError } from './cli-error.ts';
import { saying } from './progress/waits.ts';
import { nameGivenFile } from './terminal/hide-secrets.ts';

/** Readable by everyone. */
export const PUBLIC_FILE_MODE = 0o644;

const TOO_LONG = `it has more than ${TEXT_FILE_BYTES_MAX} bytes; check the path`;

/** `what` names the file's role in a message, such as "the key set". Throws CliError. */
export async function readTextFile(path: string, what: string): Promise<string> {
  return (await readGivenFile(path, what)).text;
}

/** As `readTextFile`, of a file with a secret: one that others can use is refused. `isSecret`: not every such file holds one. */
export async function readSecretText(
  path: string,
  what: string,
  isSecret = (_text: string) => true,
): Promise<string> {
  const { text, exposure } = await readGivenFile(path, what);
  if (exposure !== undefined && isSecret(text)) throw new CliError(describeExposure(what, path, exposure));
  return text;
}

/** `exposure`: how others can use the file. */
async function readGivenFile(path: string, what: string) {
  try {
    // Never by a call that blocks the process: a pipe may give nothing for long.
    return await saying(`${what} ${path} gives no bytes yet`, async () => {
      const file = await open(path, 'r');
      try {
        const exposure = findExposure(path, await file.stat(), process.geteuid?.());
        return { exposure, text: await readBounded(file) };
      } finally {
        await file.close();
      }
    });
  } catch (error) {
    throw new CliError(`${what} ${nameGivenFile(path)} cannot be read: ${describeFileError(error)}`);
  }
}

/**
 * As `readSecretText`, without a turn of the event loop; undefined: it is no file. Throws CliError for one that others can use or that
 * is too long, and the error of the system.
 */
export function readSecretNow(path: string, what: string): string | undefined {
  // Opening a pipe waits for a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) return undefined;
    const exposure = findExposure(path, stats, process.geteuid?.());
    if (exposure !== undefined) throw new CliError(describeExposure(what, path, exposure));
    if (stats.size > TEXT_FILE_BYTES_MAX) throw new CliError(`${what} ${path} cannot be read: ${TOO_LONG}`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

async function readBounded(file: FileHandle): Promise<string> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { bytesRead, buffer } = await file.read(new Uint8Array(64 * 1024), 0, 64 * 1024, null);
    if (bytesRead === 0) return Buffer.concat(pieces).toString('utf8');
    length += bytesRead;
    if (length > TEXT_FILE_BYTES_MAX) throw new Error(TOO_LONG);
    pieces.push(buffer.subarray(0, bytesRead));
  }
}

/** Never overwrites: an existing file is a failure. Throws CliError. */
export function createFile(path: string, text: string, mode: number): void {
  let made: number | undefined;
  try {
    made = openSync(path, 'wx', mode);
    writeFileSync(made, text, { flush: true });
  } catch (error) {
    // An empty file would be in the way of the next attempt.
    if (made !== undefined) removeFile(path);
    throw new CliError(`${path} cannot be written: ${describeWriteError(error)}`);
  } finally {
    if (made !== undefined) closeSync(made);
  }
}

/** As `describeFileError`, of a file that was to be made: only its folder can be missing. */
export function describeWriteError(error: unknown): string {
  const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
  return isMissing
    ? 'the folder for it does not exist; make it first, or check the path'
    : describeFileError(error);
}

/** Removes a file that was made in vain. Tells no failure of its own: the caller tells why it was in vain. */
export function removeFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Below a file there is nothing to remove.
  }
}

export function describeFileError(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  switch (code) {
    case 'ENOENT':
      return 'it does not exist; check the path';
    case 'EEXIST':
      return 'it exists already and is never overwritten; choose another name or remove it first';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied; check its owner and mode';
    case 'EISDIR':
      return 'it is a folder; name a file';
    case 'ENOTDIR':
      return 'part of the path is a file; check the path';
    case 'ENOSPC':
      return 'the disk is full; free some space, or files if it can hold no more of them';
    case 'EROFS':
      return 'the file system is read-only; choose another place';
    case 'ELOOP':
      return 'it is a link that leads to itself; check the path';
    case 'ENXIO':
      return 'it is a socket, or a device that is not there; name a file';
    case 'ENAMETOOLONG':
      return 'the name is longer than the system allows; choose a shorter one';
    case 'EIO':
      return 'the disk or the system failed to read or write it; check the disk';
    case 'EMFILE':
    case 'ENFILE':
      return 'too many files are open; raise the limit with ulimit -n';
    case 'EDQUOT':
      return 'the quota of this user is used up; free some space';
    case 'EFBIG':
      return 'the file is larger than the file system or the limits of this process allow';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}
