/** Makes packs: records of nodes, compressed where that pays, gathered until the pack is full (docs/bulk.md, Pack format). */
import { HASH_BYTES, type Hash } from '../hash.ts';
import {
  PACK_BYTES_MAX,
  PACK_RECORDS_MAX,
  PACK_REFS_MAX,
  RECORD_CODEC_NONE,
  RECORD_CODEC_ZSTD,
  type RecordCodec,
} from '../limits.ts';
import { decodeNode } from '../node-codec.ts';
import {
  encodePackHeader,
  findRecordHeaderFault,
  PACK_HEADER_BYTES,
  RECORD_HEADER_BYTES,
  type RecordHeader,
  writeRecordHeader,
} from './pack-format.ts';

/** Makes one frame without a dictionary, its window within ZSTD_WINDOW_BYTES_MAX. Undefined: it would save nothing. */
export type Compress = (bytes: Uint8Array) => Uint8Array | undefined;

/** A record ready to be put into any pack. */
export interface EncodedRecord extends RecordHeader {
  readonly stored: Uint8Array;
  readonly refCount: number;
}

export interface PackLimits {
  readonly bytesMax: number;
  readonly recordsMax: number;
}

/** `canonical` is the whole node, `hash` its digest. Throws NodeFormatError for what is no node, RangeError for what is too large. */
export function encodeRecord(hash: Hash, canonical: Uint8Array, compress?: Compress): EncodedRecord {
  const refCount = decodeNode(canonical).refs.length / HASH_BYTES;
  const canonicalLength = canonical.length;
  const compressed = compress?.(canonical);
  // Compression must save a tenth.
  const isWorthIt = compressed !== undefined && compressed.length <= canonicalLength * 0.9;
  const stored = isWorthIt ? compressed : canonical;
  const codec: RecordCodec = isWorthIt ? RECORD_CODEC_ZSTD : RECORD_CODEC_NONE;
  const record = { hash, codec, storedLength: stored.length, canonicalLength, stored, refCount };
  // A node that no pack may hold is found here and not by the receiver.
  const fault = findRecordHeaderFault({ ...record, reserved: 0 });
  if (fault !== undefined) throw new RangeError(fault);
  return record;
}

/** One pack in the making. Records are copied into it as they come. */
export class PackBuilder {
  readonly #bytesMax: number;
  readonly #recordsMax: number;
  /** offset of each record, in insertion order */
  readonly #starts = new Map<Hash, number>();
  #memory: Uint8Array<ArrayBuffer>;
  #byteLength = PACK_HEADER_BYTES;
  #refCount = 0;

  /** Limits above those of the format count as them. The pack is made in `memory` as far as that reaches. */
  constructor(
    limits: PackLimits = { bytesMax: PACK_BYTES_MAX, recordsMax: PACK_RECORDS_MAX },
    // The memory doubles each time that it is full.
    memory: ArrayBuffer = new ArrayBuffer(64 * 1024),
  ) {
    this.#bytesMax = Math.min(limits.bytesMax, PACK_BYTES_MAX);
    this.#recordsMax = Math.min(limits.recordsMax, PACK_RECORDS_MAX);
    this.#memory = new Uint8Array(memory);
    this.#memory.set(encodePackHeader());
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  get recordCount(): number {
    return this.#starts.size;
  }

  /** In the order they were added. */
  get hashes(): readonly Hash[] {
    return [...this.#starts.keys()];
  }

  /** True when the pack holds the record, also from before; false when it does not fit: then it belongs into the next pack. */
  add(record: EncodedRecord): boolean {
    if (this.#starts.has(record.hash)) return true;
    const byteLength = this.#byteLength + RECORD_HEADER_BYTES + record.storedLength;
    const refCount = this.#refCount + record.refCount;
    const isFull = this.#starts.size >= this.#recordsMax || refCount > PACK_REFS_MAX;
    if (isFull || byteLength > this.#bytesMax) return false;
    this.#makeRoom(byteLength);
    writeRecordHeader(record, this.#memory, this.#byteLength);
    this.#memory.set(record.stored, this.#byteLength + RECORD_HEADER_BYTES);
    this.#starts.set(record.hash, this.#byteLength);
    this.#byteLength = byteLength;
    this.#refCount = refCount;
    return true;
  }

  /** Takes every other record out. Refs of those that went still count. */
  retain(isKept: (hash: Hash) => boolean): void {
    const records = [...this.#starts];
    const end = this.#byteLength;
    this.#starts.clear();
    this.#byteLength = PACK_HEADER_BYTES;
    for (const [index, [hash, start]] of records.entries()) {
      if (!isKept(hash)) continue;
      const recordEnd = records[index + 1]?.[1] ?? end;
      this.#memory.copyWithin(this.#byteLength, start, recordEnd);
      this.#starts.set(hash, this.#byteLength);
      this.#byteLength += recordEnd - start;
    }
  }

  /** A view of its memory: the pack as it is now, until the next record is added. */
  toBytes(): Uint8Array<ArrayBuffer> {
    return this.#memory.subarray(0, this.#byteLength);
  }

  #makeRoom(byteLength: number): void {
    if (byteLength <= this.#memory.length) return;
    const memory = new Uint8Array(Math.max(byteLength, Math.min(2 * this.#memory.length, this.#bytesMax)));
    memory.set(this.#memory.subarray(0, this.#byteLength));
    this.#memory = memory;
  }
}
