/** Writing content that is still being verified: to stdout as it comes, to a file all or nothing. */
import { randomUUID } from 'node:crypto';
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isProcessRunning } from '@holdfast/files';
import { CliError } from './cli-error.ts';
import { describeWriteError, removeFile } from './files.ts';
import { writeSlowly } from './progress/waits.ts';
import { beforeInterruptedEnd } from './terminal/interruption.ts';

type Chunks = ReadableStream<Uint8Array>;

/** Copies to stdout. If the source fails, some bytes are already written, and the exit code tells of it. */
export async function writeToStdout(chunks: Chunks, isWatched = false): Promise<void> {
  await forEachChunk(chunks, (chunk) => writeSlowly(chunk, isWatched));
}

/** Writes `path` under another name until all bytes are good. What is no regular file is written to as it is. Throws CliError. */
export async function writeToFile(chunks: Chunks, path: string): Promise<void> {
  const existing = await lookAt(path);
  if (existing !== undefined && !existing.isFile()) return writeThrough(chunks, path, path);
  // Through a link: the file it points at is replaced, not the link.
  const target = existing === undefined ? path : await realpath(path);
  await removeAbandoned(target);
  const partial = `${partialStart(target)}.${process.pid}-${randomUUID()}.part`;
  const forget = beforeInterruptedEnd(() => removeFile(partial));
  try {
    await writeThrough(chunks, partial, path);
    await rename(partial, target);
  } catch (error) {
    removeFile(partial);
    throw error;
  } finally {
    forget();
  }
}

/** Undefined: nothing stands there. Throws CliError for a path that leads nowhere. */
async function lookAt(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (!isMissing) throw new CliError(`${path} cannot be written: ${describeWriteError(error)}`);
  }
  if ((await lstat(path).catch(() => undefined)) === undefined) return undefined;
  throw new CliError(`${path} cannot be written: it is a link that leads nowhere; name a file`);
}

function partialStart(target: string): string {
  // A longer name leaves no room for the suffix.
  return join(dirname(target), basename(target).slice(0, 50));
}

/** The suffix of a file that is being written: the process that writes it, and a name of its own. */
const PARTIAL_SUFFIX = /^\.(\d{1,10})-[0-9a-f-]{36}\.part$/;

/** Removes what killed processes have left of the same file, if it can. */
async function removeAbandoned(target: string): Promise<void> {
  const names = await readdir(dirname(target)).catch(() => []);
  const file = basename(partialStart(target));
  for (const name of names) {
    if (!name.startsWith(file)) continue;
    const [, pid] = PARTIAL_SUFFIX.exec(name.slice(file.length)) ?? [];
    if (pid === undefined || isProcessRunning(Number(pid))) continue;
    await rm(join(dirname(target), name), { force: true }).catch(() => undefined);
  }
}

/** `shownPath` is the path the person knows. */
async function writeThrough(chunks: Chunks, path: string, shownPath: string): Promise<void> {
  const explain = (error: unknown): CliError =>
    new CliError(`${shownPath} cannot be written: ${describeWriteError(error)}`);
  const file = await open(path, 'w').catch((error: unknown) => {
    throw explain(error);
  });
  try {
    await forEachChunk(chunks, (chunk) =>
      writeWhole(file, chunk).catch((error: unknown) => {
        throw explain(error);
      }),
    );
  } finally {
    await file.close();
  }
}

async function writeWhole(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await file.write(chunk, written, chunk.length - written)).bytesWritten;
  }
}

/** One chunk at a time: no more is read than `take` has taken. If it fails, it gives up the rest. */
async function forEachChunk(chunks: Chunks, take: (chunk: Uint8Array) => Promise<unknown>): Promise<void> {
  const reader = chunks.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) await take(next.value);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
