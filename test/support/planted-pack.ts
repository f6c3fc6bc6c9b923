/** Packs written from the table of docs/bulk.md alone, on purpose without the product's codec, so that a shared mistake cannot hide. */
import { zstdCompressSync } from 'node:zlib';
import type { CanonicalNode } from './canonical-node.ts';

export interface PlantedRecord {
  readonly hash: string;
  readonly codec: number;
  readonly stored: Uint8Array;
  readonly canonicalLength: number;
  /** as the header states it; the length of `stored` unless told */
  readonly storedLength?: number;
}

export const PACK_BYTES_LIMIT = 67_108_864;
const PACK_HEADER = Buffer.from('4846504b01000000', 'hex');
const RECORD_HEADER_LENGTH = 44;

export function plain({ hash, bytes }: CanonicalNode): PlantedRecord {
  return { hash, codec: 0, stored: bytes, canonicalLength: bytes.length };
}

/** `zstd` only where it is smaller, as the format wants it. */
export function packed({ hash, bytes }: CanonicalNode): PlantedRecord {
  const stored = zstdCompressSync(bytes);
  return stored.length > bytes.length
    ? plain({ hash, bytes } as CanonicalNode)
    : { hash, codec: 1, stored, canonicalLength: bytes.length };
}

export function recordBytes(record: PlantedRecord): Buffer {
  const header = Buffer.alloc(RECORD_HEADER_LENGTH);
  header.write(record.hash, 0, 'hex');
  header.writeUInt8(record.codec, 32);
  header.writeUInt32LE(record.storedLength ?? record.stored.length, 36);
  header.writeUInt32LE(record.canonicalLength, 40);
  return Buffer.concat([header, record.stored]);
}

export function makePack(records: readonly PlantedRecord[]): Buffer<ArrayBuffer> {
  return Buffer.concat([PACK_HEADER, ...records.map(recordBytes)]);
}

/** The records of a pack that must be whole. */
export function takeApart(pack: Uint8Array): PlantedRecord[] {
  const bytes = Buffer.from(pack);
  if (bytes.subarray(0, 8).compare(PACK_HEADER) !== 0) throw new Error('this is no pack');
  const records: PlantedRecord[] = [];
  for (let at = 8; at < bytes.length; ) {
    const storedLength = bytes.readUInt32LE(at + 36);
    const end = at + RECORD_HEADER_LENGTH + storedLength;
    if (end > bytes.length) throw new Error(`the pack is cut off in record ${records.length + 1}`);
    records.push({
      hash: bytes.toString('hex', at, at + 32),
      codec: bytes.readUInt8(at + 32),
      stored: bytes.subarray(at + RECORD_HEADER_LENGTH, end),
      canonicalLength: bytes.readUInt32LE(at + 40),
    });
    at = end;
  }
  return records;
}
