/** Makes packs: records of nodes, compressed where that pays, gathered until the pack is full (docs/bulk.md, Pack format). */
import { HASH_BYTES, type Hash } from '../hash.ts';
import { decodeNode } from '../node-codec.ts';
import {
  encodePackHeader,
  encodeRecordHeader,
  PACK_HEADER_BYTES,
  RECORD_HEADER_BYTES,
  type RecordHeader,
} from './pack-format.ts';
import {
  COMPRESSION_SAVING_MIN,
  PACK_BYTES_MAX,
  PACK_RECORDS_MAX,
  PACK_REFS_MAX,
  RECORD_CODEC_NONE,
  RECORD_CODEC_ZSTD,
  type RecordCodec,
} from './pack-limits.ts';

/** Makes one frame without a dictionary whose window is at most ZSTD_WINDOW_BYTES_MAX. */
export type Compress = (bytes: Uint8Array) => Uint8Array;

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
  const isWorthIt =
    compressed !== undefined && compressed.length <= canonicalLength * (1 - COMPRESSION_SAVING_MIN);
  const stored = isWorthIt ? compressed : canonical;
  const codec: RecordCodec = isWorthIt ? RECORD_CODEC_ZSTD : RECORD_CODEC_NONE;
  const record = { hash, codec, storedLength: stored.length, canonicalLength, stored, refCount };
  // A node that no pack may hold is found here and not by the receiver.
  encodeRecordHeader(record);
  return record;
}

/** One pack in the making. It keeps the stored bytes of its records as they are, without a copy, until `toBytes`. */
export class PackBuilder {
  readonly #bytesMax: number;
  readonly #recordsMax: number;
  readonly #records = new Map<Hash, EncodedRecord>();
  #byteLength = PACK_HEADER_BYTES;
  #refCount = 0;

  /** Limits above those of the format count as them. */
  constructor(limits: PackLimits = { bytesMax: PACK_BYTES_MAX, recordsMax: PACK_RECORDS_MAX }) {
    this.#bytesMax = Math.min(limits.bytesMax, PACK_BYTES_MAX);
    this.#recordsMax = Math.min(limits.recordsMax, PACK_RECORDS_MAX);
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  /** In the order they were added. */
  get hashes(): readonly Hash[] {
    return [...this.#records.keys()];
  }

  /** True when the pack holds the record, also from before; false when it does not fit: then it belongs into the next pack. */
  add(record: EncodedRecord): boolean {
    if (this.#records.has(record.hash)) return true;
    const byteLength = this.#byteLength + RECORD_HEADER_BYTES + record.storedLength;
    const refCount = this.#refCount + record.refCount;
    const isFull = this.#records.size >= this.#recordsMax || refCount > PACK_REFS_MAX;
    if (isFull || byteLength > this.#bytesMax) return false;
    this.#records.set(record.hash, record);
    this.#byteLength = byteLength;
    this.#refCount = refCount;
    return true;
  }

  toBytes(): Uint8Array {
    const pack = new Uint8Array(this.#byteLength);
    pack.set(encodePackHeader());
    let at = PACK_HEADER_BYTES;
    for (const record of this.#records.values()) {
      pack.set(encodeRecordHeader(record), at);
      pack.set(record.stored, at + RECORD_HEADER_BYTES);
      at += RECORD_HEADER_BYTES + record.storedLength;
    }
    return pack;
  }
}
