/** Packs for tests: made from nodes or from planted parts, and judged to the end as a server would. */
import { createHash } from 'node:crypto';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { bytesToHash, type Hash } from '../hash.ts';
import type { RecordCodec } from '../limits.ts';
import { encodeNode } from '../node-codec.ts';
import { judgeRecord, type RecordJudge } from '../pack/judge-record.ts';
import { encodePackHeader, encodeRecordHeader } from '../pack/pack-format.ts';
import { PackReader } from '../pack/pack-reader.ts';
import { ZstdFrameError } from '../pack/zstd-frame.ts';
import type { NaiveOutcome } from './naive-pack-fixture.ts';

export function sha256(bytes: Uint8Array): Hash {
  return bytesToHash(createHash('sha256').update(bytes).digest());
}

export const JUDGE: RecordJudge = {
  nodeBytesMax: 64 * 1024 * 1024,
  sha256,
  unzstd: (bytes, canonicalLength) => {
    try {
      return zstdDecompressSync(bytes, { maxOutputLength: canonicalLength });
    } catch (cause) {
      throw new ZstdFrameError(String(cause));
    }
  },
};

export function compress(bytes: Uint8Array, hasChecksum = false): Uint8Array {
  return zstdCompressSync(bytes, { params: { [constants.ZSTD_c_checksumFlag]: hasChecksum ? 1 : 0 } });
}

export interface PlantedRecord {
  readonly hash: Hash;
  readonly codec: RecordCodec;
  readonly stored: Uint8Array;
  readonly canonicalLength: number;
}

/** A good record of a node with this text and these refs. */
export function recordOf(text: string, refs: readonly Hash[] = [], codec: RecordCodec = 0): PlantedRecord {
  return recordOfBytes(encodeNode({ contentType: 'text/plain', refs, content: Buffer.from(text) }), codec);
}

export function recordOfBytes(canonical: Uint8Array, codec: RecordCodec = 0): PlantedRecord {
  const stored = codec === 0 ? canonical : compress(canonical);
  return { hash: sha256(canonical), codec, stored, canonicalLength: canonical.length };
}

export function packOf(records: readonly PlantedRecord[]): Uint8Array {
  return Buffer.concat([encodePackHeader(), ...records.flatMap(encodeRecord)]);
}

export function encodeRecord({ hash, codec, stored, canonicalLength }: PlantedRecord): Uint8Array[] {
  return [encodeRecordHeader({ hash, codec, storedLength: stored.length, canonicalLength }), stored];
}

/** The pack's outcome in the words of the naive reader; `message` is the fault's. */
export function judgePack(
  chunks: readonly Uint8Array[],
  { totalBytes, judge = JUDGE }: { readonly totalBytes?: number; readonly judge?: RecordJudge } = {},
): NaiveOutcome & { readonly message: string | undefined } {
  const reader = new PackReader(totalBytes);
  const lines: string[] = [];
  for (const chunk of chunks) {
    for (const record of reader.push(chunk)) {
      const { node, rejection } = judgeRecord(record, judge);
      if (node !== undefined && !reader.countRefs(record, node.refs.length / 32)) continue;
      lines.push(`${record.hash} ${rejection?.code ?? 'good'}`);
    }
  }
  reader.end();
  return { lines, brokenAt: reader.fault?.byte, message: reader.fault?.message };
}

export function splitAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}
