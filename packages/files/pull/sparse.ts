/** Files whose blocks of zeros take no room: what is never written of a new file reads as zeros. */
import { ftruncateSync, writeSync } from 'node:fs';

/** The unit in which file systems allocate; an aligned block of zeros becomes a hole. */
const BLOCK_BYTES = 4096;
const ZEROS = Buffer.alloc(BLOCK_BYTES);

/** The parts of `bytes`, which begin at `offset` of the file, that are not to be holes. */
export function* dataParts(
  offset: number,
  bytes: Uint8Array,
): Generator<{ readonly offset: number; readonly bytes: Uint8Array }, void, undefined> {
  let start: number | undefined;
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + BLOCK_BYTES - ((offset + at) % BLOCK_BYTES));
    const isHole = Buffer.compare(bytes.subarray(at, end), ZEROS.subarray(0, end - at)) === 0;
    if (!isHole) start ??= at;
    else if (start !== undefined) {
      yield { offset: offset + start, bytes: bytes.subarray(start, at) };
      start = undefined;
    }
    at = end;
  }
  if (start !== undefined) yield { offset: offset + start, bytes: bytes.subarray(start) };
}

/** Fills a new file. Throws what the system says. */
export function fillSparsely(descriptor: number, content: Uint8Array): void {
  for (const { offset, bytes } of dataParts(0, content)) {
    for (let done = 0; done < bytes.length; ) {
      done += writeSync(descriptor, bytes, done, bytes.length - done, offset + done);
    }
  }
  ftruncateSync(descriptor, content.length);
}
