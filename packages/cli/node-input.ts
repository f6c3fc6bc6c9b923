/** Reading the content of one node from a file or stdin. */
import { open } from 'node:fs/promises';
import { CliError } from './cli-error.ts';
import { describeFileError } from './files.ts';
import { saying } from './progress/waits.ts';

/** A node is put together in memory. Far above the default limit of servers, well below what makes this process fail. */
export const INPUT_BYTES_MAX = 1024 * 1024 * 1024;

/** More than any line with paths has. */
const LINE_BYTES_MAX = 1024 * 1024;

/** All bytes of `path`, or of stdin for `-`. Throws CliError. */
export async function readInput(path: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  await readParts(path, (part) => parts.push(part));
  return Buffer.concat(parts);
}

/** Each line of `path`, or of stdin for `-`, as soon as it is whole, without its end. Throws CliError, and what `take` throws. */
export async function readLines(path: string, take: (line: Uint8Array) => void): Promise<void> {
  let begun: Uint8Array = new Uint8Array(0);
  await readParts(path, (part) => {
    let rest = Buffer.concat([begun, part]);
    // Each line ends with a line feed.
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      take(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
    if (rest.length > LINE_BYTES_MAX) {
      throw new CliError(`a line of ${nameOf(path)} has more than ${LINE_BYTES_MAX} bytes; check the path`);
    }
    begun = rest;
  });
  if (begun.length > 0) take(begun);
}

const nameOf = (path: string): string => (path === '-' ? 'stdin' : path);

async function readParts(path: string, onPart: (part: Uint8Array) => void): Promise<void> {
  if (path === '-') return giveParts(process.stdin, nameOf(path), onPart);
  try {
    const file = await open(path);
    try {
      await giveParts(file.createReadStream({ autoClose: false }), path, onPart);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${path} cannot be read: ${describeFileError(error)}`);
  }
}

function giveParts(
  parts: AsyncIterable<Uint8Array>,
  name: string,
  onPart: (part: Uint8Array) => void,
): Promise<void> {
  // Named with each part that comes: what comes slowly is not what has stopped.
  return saying(`${name} gives no further bytes yet`, async (progress) => {
    let length = 0;
    for await (const part of parts) {
      progress.item(name);
      length += part.length;
      if (length > INPUT_BYTES_MAX) {
        throw new CliError(`${name} has more than ${INPUT_BYTES_MAX} bytes, too many to take; split it up`);
      }
      onPart(part);
    }
  });
}
