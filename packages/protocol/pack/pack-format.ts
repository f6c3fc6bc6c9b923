/** The layout of a pack, version 1 (docs/bulk.md, Pack format): a header, then records to the end; little-endian, no padding. */
import { bytesToHash, HASH_BYTES, type Hash, writeHash } from '../hash.ts';
import {
  PACK_NODE_BYTES_MAX,
  PACK_RECORDS_MAX,
  RECORD_CODEC_NONE,
  RECORD_CODEC_ZSTD,
  type RecordCodec,
} from '../limits.ts';
import { readU16, readU32, writeU32 } from '../little-endian.ts';

const MAGIC = [0x48, 0x46, 0x50, 0x4b] as const;
const PACK_FORMAT_VERSION = 1;
/** Where each field of the pack's header begins, after the magic. */
const AT = { version: 4, reserved: 6 } as const;
export const PACK_HEADER_BYTES = 8;

/** Where each field of a record's header begins, after the hash. */
const RECORD_AT = { codec: HASH_BYTES, reserved: 33, storedLength: 36, canonicalLength: 40 } as const;
export const RECORD_HEADER_BYTES = 44;

export interface RecordHeader {
  readonly hash: Hash;
  readonly codec: RecordCodec;
  /** bytes the record holds */
  readonly storedLength: number;
  /** bytes of the node they stand for */
  readonly canonicalLength: number;
}

/** A record header as it was read: nothing is judged yet. */
export interface RawRecordHeader {
  readonly hash: Hash;
  readonly codec: number;
  /** the three reserved bytes as one number */
  readonly reserved: number;
  readonly storedLength: number;
  readonly canonicalLength: number;
}

export function encodePackHeader(): Uint8Array {
  const header = new Uint8Array(PACK_HEADER_BYTES);
  header.set(MAGIC);
  header[AT.version] = PACK_FORMAT_VERSION;
  return header;
}

/** The first rule the pack's header breaks. `bytes` holds at least PACK_HEADER_BYTES. */
export function findPackHeaderFault(bytes: Uint8Array): string | undefined {
  if (MAGIC.some((byte, index) => bytes[index] !== byte)) return 'the pack does not begin with 48 46 50 4b';
  const version = readU16(bytes, AT.version);
  if (version !== PACK_FORMAT_VERSION)
    return `pack version ${version} is not known; write version ${PACK_FORMAT_VERSION}`;
  const reserved = readU16(bytes, AT.reserved);
  if (reserved !== 0)
    return `the reserved field of the pack's header is 0x${reserved.toString(16)}; it must be 0`;
  return undefined;
}

/** Throws RangeError when the parts make no record. */
export function encodeRecordHeader(header: RecordHeader): Uint8Array {
  const fault = findRecordHeaderFault({ ...header, reserved: 0 });
  if (fault !== undefined) throw new RangeError(fault);
  const bytes = new Uint8Array(RECORD_HEADER_BYTES);
  writeRecordHeader(header, bytes, 0);
  return bytes;
}

/** Writes RECORD_HEADER_BYTES from `offset` on. Parts that make no record are not noticed. */
export function writeRecordHeader(header: RecordHeader, bytes: Uint8Array, offset: number): void {
  writeHash(header.hash, bytes, offset);
  // The reserved bytes behind it are zero.
  writeU32(bytes, offset + RECORD_AT.codec, header.codec);
  writeU32(bytes, offset + RECORD_AT.storedLength, header.storedLength);
  writeU32(bytes, offset + RECORD_AT.canonicalLength, header.canonicalLength);
}

/** Reads RECORD_HEADER_BYTES from `offset` on. `findRecordHeaderFault` judges them. */
export function decodeRecordHeader(bytes: Uint8Array, offset = 0): RawRecordHeader {
  const reserved = offset + RECORD_AT.reserved;
  return {
    hash: bytesToHash(bytes.subarray(offset, offset + HASH_BYTES)),
    codec: bytes[offset + RECORD_AT.codec] as number,
    reserved: (bytes[reserved] as number) | (readU16(bytes, reserved + 1) << 8),
    storedLength: readU32(bytes, offset + RECORD_AT.storedLength),
    canonicalLength: readU32(bytes, offset + RECORD_AT.canonicalLength),
  };
}

/** The first rule a record's header breaks by itself, in the order of the fields. Without one it is a RecordHeader. */
export function findRecordHeaderFault(header: RawRecordHeader): string | undefined {
  const { codec, reserved, storedLength, canonicalLength } = header;
  if (codec > RECORD_CODEC_ZSTD) return `codec ${codec} is not known; 0 is none, 1 is zstd`;
  if (reserved !== 0) return 'its reserved bytes are not 0';
  if (canonicalLength < 1 || canonicalLength > PACK_NODE_BYTES_MAX) {
    return `its canonical length is ${canonicalLength}; a node in a pack has 1 to ${PACK_NODE_BYTES_MAX} bytes`;
  }
  if (codec === RECORD_CODEC_NONE && storedLength !== canonicalLength) {
    return `its stored length ${storedLength} is not its canonical length ${canonicalLength}, although it is not compressed`;
  }
  if (storedLength > canonicalLength) {
    return `its stored length ${storedLength} is more than its canonical length ${canonicalLength}`;
  }
  return undefined;
}

/** Why a pack ends before its record `index`, counted from 0. */
export function findRecordCountFault(index: number): string | undefined {
  return index < PACK_RECORDS_MAX ? undefined : `a pack holds at most ${PACK_RECORDS_MAX} records`;
}
