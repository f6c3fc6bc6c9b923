/** Judges one record of a pack by itself: length, frame, digest, format (docs/bulk.md, Pack format). Conflicts are the server's to find. */
import type { Hash } from '../hash.ts';
import { RECORD_CODEC_NONE } from '../limits.ts';
import { type DecodedNode, decodeNode } from '../node-codec.ts';
import { judgeNodeBytes, type NodeJudgement, reject } from '../node-judgement.ts';
import type { Rejection } from '../wire.ts';
import type { PackRecord } from './pack-reader.ts';
import { type Unzstd, walkZstdFrame, ZstdFrameError } from './zstd-frame.ts';

/** A record's node in memory; everything in it is a view of `canonical`. */
export interface RecordNode extends DecodedNode {
  readonly canonical: Uint8Array;
}

export interface RecordJudge {
  /** the largest node this server takes, canonical bytes */
  readonly nodeBytesMax: number;
  readonly unzstd: Unzstd;
  readonly sha256: (bytes: Uint8Array) => Hash;
}

/** All of it at once. Throws only what `unzstd` throws that says nothing of the frame. */
export function judgeRecord(
  record: PackRecord,
  { nodeBytesMax, unzstd, sha256 }: RecordJudge,
): NodeJudgement<RecordNode> {
  const unpacked = unpackRecord(record, nodeBytesMax, unzstd);
  if (unpacked.rejection !== undefined) return unpacked;
  return judgeCanonicalBytes(record.hash, sha256(unpacked.node), unpacked.node);
}

/** The canonical bytes a record claims to hold, not proven yet; `canonicalLength` of them. */
export function unpackRecord(
  { codec, stored, canonicalLength }: Pick<PackRecord, 'codec' | 'stored' | 'canonicalLength'>,
  nodeBytesMax: number,
  unzstd: Unzstd,
): NodeJudgement<Uint8Array> {
  if (canonicalLength > nodeBytesMax) {
    return reject(
      'NODE_TOO_LARGE',
      `the node has ${canonicalLength} bytes; the most a node may have is ${nodeBytesMax}`,
    );
  }
  if (codec === RECORD_CODEC_NONE) return { node: stored };
  const { fault, frame } = walkZstdFrame(stored, canonicalLength);
  if (fault !== undefined) return rejectFrame(fault);
  try {
    const canonical = unzstd(stored, canonicalLength, frame);
    if (canonical.length === canonicalLength) return { node: canonical };
    return rejectFrame(
      `the frame unpacks to ${canonical.length} bytes, the record states ${canonicalLength}`,
    );
  } catch (error) {
    if (error instanceof ZstdFrameError) return rejectFrame(error.message);
    throw error;
  }
}

/** `digest` is the SHA-256 of `canonical`, by whatever makes it fastest. */
export function judgeCanonicalBytes(
  hash: Hash,
  digest: Hash,
  canonical: Uint8Array,
): NodeJudgement<RecordNode> {
  return judgeNodeBytes({ hash, digest, byteCount: canonical.length }, () => ({
    ...decodeNode(canonical),
    canonical,
  }));
}

function rejectFrame(message: string): { readonly rejection: Rejection } {
  return reject('INVALID_CANONICAL_NODE', message);
}
