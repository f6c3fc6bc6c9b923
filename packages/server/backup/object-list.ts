/** The objects of a backup and their sizes in one file. Each entry has 24 bytes: generation and u64 size, little-endian. */
import type { Generation } from '../core/model.ts';

const GENERATION_BYTES = 16;
const ENTRY_BYTES = 24;

/** generation → bytes */
export type ObjectSizes = ReadonlyMap<Generation, number>;

export function encodeObjectList(sizes: ObjectSizes): Buffer {
  const bytes = Buffer.alloc(sizes.size * ENTRY_BYTES);
  let at = 0;
  for (const [generation, size] of sizes) {
    bytes.write(generation, at, 'hex');
    bytes.writeBigUInt64LE(BigInt(size), at + GENERATION_BYTES);
    at += ENTRY_BYTES;
  }
  return bytes;
}

export function decodeObjectList(bytes: Uint8Array): Map<Generation, number> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const sizes = new Map<Generation, number>();
  for (let at = 0; at + ENTRY_BYTES <= buffer.length; at += ENTRY_BYTES) {
    const generation = buffer.toString('hex', at, at + GENERATION_BYTES);
    sizes.set(generation, Number(buffer.readBigUInt64LE(at + GENERATION_BYTES)));
  }
  return sizes;
}
