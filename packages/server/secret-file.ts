/** Reading of files that hold secrets: never one that others can use, and never without a bound. */
import { type FileHandle, open } from 'node:fs/promises';
import { describeExposure, findExposure, isHandedOver, TEXT_FILE_BYTES_MAX } from '@holdfast/protocol';
import { ConfigError } from './errors.ts';

export interface SecretFile {
  readonly bytes: Uint8Array;
  /** undefined: a pipe or the like, which gives its bytes once */
  readonly version: string | undefined;
}

/** `what`: the file's role in messages. Rejects with ConfigError if others can use the file or it is too long, or the system's error. */
export async function readSecretFile(path: string, what: string): Promise<SecretFile> {
  await using file = await open(path, 'r');
  // Checks the open file, so that another one cannot replace it meanwhile.
  const stats = await file.stat();
  const mode = findExposure(path, stats, process.geteuid?.());
  if (mode !== undefined) throw new ConfigError(describeExposure(what, path, mode));
  return {
    bytes: await readBounded(file, path, what),
    version: stats.isFile() && !isHandedOver(path) ? versionOf(stats) : undefined,
  };
}

/** Differs once the file was written anew. */
export function versionOf({
  mtimeMs,
  ino,
  size,
}: {
  readonly mtimeMs: number;
  readonly ino: number;
  readonly size: number;
}): string {
  return `${mtimeMs} ${ino} ${size}`;
}

async function readBounded(file: FileHandle, path: string, what: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { bytesRead, buffer } = await file.read(new Uint8Array(64 * 1024), 0, 64 * 1024, null);
    if (bytesRead === 0) return Buffer.concat(pieces);
    length += bytesRead;
    if (length > TEXT_FILE_BYTES_MAX) {
      throw new ConfigError(`${what} ${path} has more than ${TEXT_FILE_BYTES_MAX} bytes: check the path`);
    }
    pieces.push(buffer.subarray(0, bytesRead));
  }
}
