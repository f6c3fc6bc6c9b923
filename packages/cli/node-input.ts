/** Reading the content of one node from a file or stdin. */
import { open } from 'node:fs/promises';
import { CliError } from './cli-error.ts';
import { describeFileError } from './files.ts';
import { saying } from './progress/waits.ts';

/** A node is put together in memory. Far above the default limit of servers, well below what makes this process fail. */
export const INPUT_BYTES_MAX = 1024 * 1024 * 1024;

/** All bytes of `path`, or of stdin for `-`. Throws CliError. */
export async function readInput(path: string): Promise<Uint8Array> {
  if (path === '-') return collect(process.stdin, 'stdin');
  try {
    const file = await open(path);
    try {
      return await collect(file.createReadStream({ autoClose: false }), path);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${path} cannot be read: ${describeFileError(error)}`);
  }
}

function collect(chunks: AsyncIterable<Uint8Array>, name: string): Promise<Uint8Array> {
  // Named with each part that comes: what comes slowly is not what has stopped.
  return saying(`${name} gives no further bytes yet`, (progress) =>
    collectParts(chunks, name, () => progress.item(name)),
  );
}

async function collectParts(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  onPart: () => void,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of chunks) {
    onPart();
    length += part.length;
    if (length > INPUT_BYTES_MAX) {
      throw new CliError(
        `${name} has more than ${INPUT_BYTES_MAX} bytes, too many for one node; split it up`,
      );
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
