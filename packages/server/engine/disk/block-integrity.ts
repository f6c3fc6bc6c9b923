/**
 * The integrity record of one object: version, block size, one xxHash3 (64 bits) per block. It is made while the node is
 * validated, and checked before any byte of a block is sent. It finds damage; forgery is found by the digest.
 *
 * | offset | bytes | field |
 * |---|---|---|
 * | 0 | 1 | version, 1 |
 * | 1 | 1 | log2 of the block size in bytes |
 * | 2 | 8 × blocks | checksums, little-endian; the last block may be shorter; an empty object has none |
 */
import { ContentDamaged } from '../../core/store-failure.ts';

const VERSION = 1;
const HEADER_BYTES = 2;
const CHECKSUM_BYTES = 8;

/** The block size of new objects. Reading any byte reads its whole block. */
export const BLOCK_BYTES = 2 ** 18;

function checksum(block: Uint8Array): bigint {
  return Bun.hash.xxHash3(block);
}

export class IntegrityBuilder {
  readonly #checksums: bigint[] = [];

  /** In order; every block but the last has BLOCK_BYTES. */
  push(block: Uint8Array): void {
    this.#checksums.push(checksum(block));
  }

  finish(): Uint8Array {
    const record = new Uint8Array(HEADER_BYTES + CHECKSUM_BYTES * this.#checksums.length);
    const view = new DataView(record.buffer);
    record[0] = VERSION;
    record[1] = Math.log2(BLOCK_BYTES);
    this.#checksums.forEach((sum, index) => {
      view.setBigUint64(HEADER_BYTES + CHECKSUM_BYTES * index, sum, true);
    });
    return record;
  }
}

/** Reads a record and proves blocks by it. */
export class BlockIntegrity {
  readonly blockBytes: number;
  readonly canonicalSize: number;
  readonly #view: DataView;

  /** @throws ContentDamaged when the record is no record of an object of this size */
  constructor(record: Uint8Array, canonicalSize: number) {
    // A flipped bit in the database can turn bytes into text or a number.
    const isBytes = record instanceof Uint8Array;
    const log2 = isBytes ? (record[1] ?? 0) : 0;
    this.blockBytes = 2 ** log2;
    this.canonicalSize = canonicalSize;
    const blocks = Math.ceil(canonicalSize / this.blockBytes);
    const isRecord =
      isBytes &&
      record[0] === VERSION &&
      // A block is held in memory: no record names one of more than 16 MiB.
      log2 <= 24 &&
      record.length === HEADER_BYTES + CHECKSUM_BYTES * blocks;
    if (!isRecord) throw new ContentDamaged('the integrity record does not fit the object');
    this.#view = new DataView(record.buffer, record.byteOffset, record.byteLength);
  }

  /** `bytes` lie at `position`, a multiple of blockBytes, and end at a block's end or the object's. */
  isIntact(bytes: Uint8Array, position: number): boolean {
    let block = position / this.blockBytes;
    for (let start = 0; start < bytes.length; start += this.blockBytes, block++) {
      const expected = this.#view.getBigUint64(HEADER_BYTES + CHECKSUM_BYTES * block, true);
      const isAll = bytes.length <= this.blockBytes;
      if (checksum(isAll ? bytes : bytes.subarray(start, start + this.blockBytes)) !== expected) return false;
    }
    return true;
  }
}

/** Buffers of one block that are used again, so that parallel uploads allocate little memory. */
export class BlockPool {
  readonly #free: Uint8Array[] = [];

  /** Objects of an older format may have blocks of another size. */
  take(bytes = BLOCK_BYTES): Uint8Array {
    return (bytes === BLOCK_BYTES ? this.#free.pop() : undefined) ?? new Uint8Array(bytes);
  }

  /** The caller keeps no view of it. */
  give(block: Uint8Array): void {
    if (block.length === BLOCK_BYTES && this.#free.length < 64) this.#free.push(block);
  }
}
