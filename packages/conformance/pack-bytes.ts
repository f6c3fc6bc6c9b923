/**
 * The pack format, written a second time on purpose (docs/bulk.md, Pack format): a mistake in the project's own codec must not
 * hide itself.
 */
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { expectEqual, expectThat } from './expect.ts';
import type { SampleNode } from './node-bytes.ts';

export const PACK_MEDIA_TYPE = 'application/vnd.holdfast.cas-pack.v1';
export const PACK_BYTES_MAX = 67_108_864;
export const PACK_RECORDS_MAX = 4096;
export const PACK_REFS_MAX = 65_536;
export const PACKED_NODE_BYTES_MAX = 8_388_608;
export const PACK_HEADER = Buffer.from('4846504b01000000', 'hex');
const RECORD_HEADER_BYTES = 44;
const CODEC_NONE = 0;
const CODEC_ZSTD = 1;

export interface RecordSketch {
  readonly hash: string;
  readonly codec: number;
  readonly stored: Uint8Array;
  readonly canonicalLength: number;
  /** as the header says; the length of `stored` unless told */
  readonly storedLength?: number;
  /** three bytes of 0 unless told */
  readonly reserved?: readonly [number, number, number];
}

/** A record of the node's bytes as they are. */
export function plainRecord({ hash, bytes }: Pick<SampleNode, 'hash' | 'bytes'>): RecordSketch {
  return { hash, codec: CODEC_NONE, stored: bytes, canonicalLength: bytes.length };
}

/** A record of one frame: of the node's bytes unless told. */
export function framedRecord(
  { hash, bytes }: Pick<SampleNode, 'hash' | 'bytes'>,
  frame: Uint8Array = zstdCompressSync(bytes),
): RecordSketch {
  return { hash, codec: CODEC_ZSTD, stored: frame, canonicalLength: bytes.length };
}

export function encodeRecord(record: RecordSketch): Buffer {
  const header = Buffer.alloc(RECORD_HEADER_BYTES);
  header.write(record.hash, 0, 'hex');
  header.writeUInt8(record.codec, 32);
  header.set(record.reserved ?? [0, 0, 0], 33);
  header.writeUInt32LE(record.storedLength ?? record.stored.length, 36);
  header.writeUInt32LE(record.canonicalLength, 40);
  return Buffer.concat([header, record.stored]);
}

export function encodePack(records: readonly RecordSketch[], header: Uint8Array = PACK_HEADER): Buffer {
  return Buffer.concat([header, ...records.map(encodeRecord)]);
}

export interface ReadRecord {
  readonly hash: string;
  readonly codec: number;
  readonly canonical: Uint8Array;
}

/** The records of a pack that must be whole and keep every rule of the format. */
export function decodePack(bytes: Uint8Array): ReadRecord[] {
  const pack = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  expectThat(
    pack.subarray(0, 8).equals(PACK_HEADER),
    'the header of a pack',
    pack.toString('hex', 0, 8) || '(none)',
  );
  const records: ReadRecord[] = [];
  for (let at = PACK_HEADER.length; at < pack.length; ) {
    expectThat(at + RECORD_HEADER_BYTES <= pack.length, 'whole records', `a header cut off at byte ${at}`);
    const [codec, storedLength, canonicalLength] = [
      pack.readUInt8(at + 32),
      pack.readUInt32LE(at + 36),
      pack.readUInt32LE(at + 40),
    ];
    const stored = pack.subarray(at + RECORD_HEADER_BYTES, at + RECORD_HEADER_BYTES + storedLength);
    expectEqual(stored.length, storedLength, 'bytes of the record');
    expectThat(codec === CODEC_NONE || codec === CODEC_ZSTD, 'codec 0 or 1', codec);
    expectEqual(pack.toString('hex', at + 33, at + 36), '000000', 'reserved bytes');
    const canonical = codec === CODEC_ZSTD ? zstdDecompressSync(stored) : stored;
    expectEqual(canonical.length, canonicalLength, 'canonical length of the record');
    records.push({ hash: pack.toString('hex', at, at + 32), codec, canonical });
    at += RECORD_HEADER_BYTES + storedLength;
  }
  return records;
}
