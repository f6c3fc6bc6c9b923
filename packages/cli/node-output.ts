/** Writing content that is still being verified: to stdout as it comes, to a file all or nothing. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { CliError } from './cli-error.ts';
import { describeFileError } from './files.ts';

type Chunks = ReadableStream<Uint8Array>;

/** Copies to stdout. An error of the source comes after what was already written; the exit code tells. */
export async function writeToStdout(chunks: Chunks): Promise<void> {
  await copy(chunks, process.stdout);
}

/**
 * Writes `path` under another name and gives it its own only when all bytes are good: what stood there before stays until
 * then. A path that is no regular file (such as /dev/null or a pipe) is written to as it is. Throws CliError.
 */
export async function writeToFile(chunks: Chunks, path: string): Promise<void> {
  const existing = await stat(path).catch(() => undefined);
  if (existing !== undefined && !existing.isFile()) return writeThrough(chunks, path, path);
  // Through a link: the file it points at is replaced, not the link.
  const target = existing === undefined ? path : await realpath(path);
  const partial = `${target}.${randomUUID()}.part`;
  try {
    await writeThrough(chunks, partial, path);
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

async function writeThrough(chunks: Chunks, path: string, shownPath: string): Promise<void> {
  const file = createWriteStream(path);
  let failure: Error | undefined;
  file.on('error', (error) => {
    failure = error;
  });
  try {
    await copy(chunks, file);
    file.end();
    await once(file, 'close');
  } catch (error) {
    file.destroy();
    if (failure === undefined) throw error;
  }
  if (failure !== undefined)
    throw new CliError(`${shownPath} cannot be written: ${describeFileError(failure)}`);
}

/** With backpressure: no more is read than the target takes. */
async function copy(chunks: Chunks, target: Writable): Promise<void> {
  const reader = chunks.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (!target.write(value)) await once(target, 'drain');
      if (target.errored) throw target.errored;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
