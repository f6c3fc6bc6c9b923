/**
 * Content-defined chunking after FastCDC (normalised), as docs/tree-format.md fixes it: where a file is cut depends on
 * the 32 bytes before the cut and on the cut before it, so an insertion moves few cuts. Equal results whatever the buffering.
 */
import { createSha256 } from '../../sha256.ts';
import { CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_BYTES_TARGET } from './tree-format.ts';

/** High bits of the hash that are zero at a cut: 22 below the target, 18 above it. */
const MASK_BELOW_TARGET = ~0 << 10;
const MASK_ABOVE_TARGET = ~0 << 14;

let gearTable: Int32Array | undefined;

/** Entry `byte`: the first four bytes, little-endian, of the SHA-256 of that one byte. */
function getGearTable(): Int32Array {
  gearTable ??= Int32Array.from({ length: 256 }, (_, byte) => {
    const sha256 = createSha256();
    sha256.update(Uint8Array.of(byte));
    return new DataView(sha256.digest().buffer).getInt32(0, true);
  });
  return gearTable;
}

/**
 * The end of the chunk that begins at `start` of `bytes`. `isLast`: the data ends with `bytes`. Undefined when more bytes
 * are needed to tell, never so when there are CHUNK_BYTES_MAX from `start` on. A later call with more bytes may pass in
 * `scannedEnd` the length that `bytes` had, so that nothing is looked at twice.
 */
export function findChunkEnd(
  bytes: Uint8Array,
  start: number,
  isLast: boolean,
  scannedEnd: number = start,
): number | undefined {
  const available = Math.min(bytes.length - start, CHUNK_BYTES_MAX);
  const scan = (fromLength: number, toLength: number, mask: number): number => {
    const from = Math.max(start + fromLength - 1, scannedEnd);
    return scanForCut(bytes, from, start + Math.min(toLength, available), mask);
  };
  const early = scan(CHUNK_BYTES_MIN, CHUNK_BYTES_TARGET - 1, MASK_BELOW_TARGET);
  if (early > 0) return early;
  const late = scan(CHUNK_BYTES_TARGET, CHUNK_BYTES_MAX, MASK_ABOVE_TARGET);
  if (late > 0) return late;
  return available === CHUNK_BYTES_MAX || isLast ? start + available : undefined;
}

/** Not a function declaration: Bun 1.4 does not inline those in an executable with bytecode, and cutting takes twice as long. */
const gearOf = (gear: Int32Array, bytes: Uint8Array, at: number): number =>
  gear[bytes[at] as number] as number;

/**
 * The end of a chunk whose last byte is the first from `from` up to but not including `end` where the hash has no bit of
 * `mask`; 0 when there is none. Two bytes at a time: what the second adds does not wait for the hash of the first. That takes
 * two thirds of the time of one byte at a time; four bytes, words and interleaved lanes are no better.
 */
function scanForCut(bytes: Uint8Array, from: number, end: number, mask: number): number {
  if (from >= end) return 0;
  const gear = getGearTable();
  let hash = 0;
  // The hash has 32 bits and moves one per byte, so it sees 32 bytes. A cut is never earlier than CHUNK_BYTES_MIN, so they are there.
  let at = from - 31;
  for (; at < from; at += 1) hash = ((hash << 1) + gearOf(gear, bytes, at)) | 0;
  for (; at + 2 <= end; at += 2) {
    const gearOfFirst = gearOf(gear, bytes, at);
    const first = ((hash << 1) + gearOfFirst) | 0;
    const both = ((gearOfFirst << 1) + gearOf(gear, bytes, at + 1)) | 0;
    hash = ((hash << 2) + both) | 0;
    if ((first & mask) === 0) return at + 1;
    if ((hash & mask) === 0) return at + 2;
  }
  if (at < end && (((hash << 1) + gearOf(gear, bytes, at)) & mask) === 0) return end;
  return 0;
}

/** The chunks of a stream of pieces of any size, each in memory of its own; none when there are no bytes. */
export async function* chunkStream(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  // The second half makes it rare that the rest has to be moved.
  const memory = new Uint8Array(2 * CHUNK_BYTES_MAX);
  let start = 0;
  let filled = 0;
  let scannedEnd = 0;
  for await (const piece of pieces) {
    for (let taken = 0; taken < piece.length; ) {
      if (filled === memory.length) {
        memory.copyWithin(0, start, filled);
        filled -= start;
        scannedEnd = Math.max(0, scannedEnd - start);
        start = 0;
      }
      const part = piece.subarray(taken, taken + memory.length - filled);
      memory.set(part, filled);
      taken += part.length;
      filled += part.length;
      const window = memory.subarray(0, filled);
      for (;;) {
        const end = findChunkEnd(window, start, false, scannedEnd);
        if (end === undefined) break;
        yield memory.slice(start, end);
        start = end;
        scannedEnd = end;
      }
      scannedEnd = filled;
    }
  }
  const rest = memory.subarray(0, filled);
  while (start < filled) {
    const end = findChunkEnd(rest, start, true, scannedEnd) ?? filled;
    yield memory.slice(start, end);
    start = end;
  }
}
