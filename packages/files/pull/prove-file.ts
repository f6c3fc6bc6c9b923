/** Verifies the node of a whole file where it is written, so that the pull has less to do. */
import type { UnprovenFile } from '@holdfast/client/internal';
import { PACK_NODE_BYTES_MAX, RECORD_CODEC_NONE, unpackRecord } from '@holdfast/protocol';
import { digestWhole } from '../node-digest.ts';
import { releaseMemory } from '../resident-memory.ts';
import { findZstd } from '../zstd.ts';

const UNZSTD = findZstd()?.unzstd;

/** Calls `write` with a view of the bytes that holds until it returns. Undefined, without a call: wrong, or not to be unpacked here. */
export function withProvenFile<T>(
  { hash, record, header }: UnprovenFile,
  write: (content: Uint8Array) => T,
): T | undefined {
  const canonical = unpack(record);
  if (canonical === undefined) return undefined;
  try {
    const isProven = digestWhole(canonical) === hash && startsWith(canonical, header);
    return isProven ? write(canonical.subarray(header.length)) : undefined;
  } finally {
    if (record.codec !== RECORD_CODEC_NONE) releaseMemory(canonical);
  }
}

function unpack(record: UnprovenFile['record']): Uint8Array | undefined {
  if (record.codec !== RECORD_CODEC_NONE && UNZSTD === undefined) return undefined;
  try {
    return unpackRecord(record, PACK_NODE_BYTES_MAX, UNZSTD ?? refuse).node;
  } catch {
    // The decoder failed for reasons of its own.
    return undefined;
  }
}

function refuse(): never {
  throw new TypeError('compressed records are refused before');
}

function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  return Buffer.compare(bytes.subarray(0, start.length), start) === 0;
}
