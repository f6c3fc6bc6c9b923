/** reads: many small nodes in one answer, as a pack (docs/bulk.md, Read many nodes). Every record is proven before its first byte is sent. */
import {
  encodePackHeader,
  encodeRecordHeader,
  groupsOf,
  HASH_BYTES,
  type Hash,
  PACK_BYTES_MAX,
  PACK_HEADER_BYTES,
  PACK_NODE_BYTES_MAX,
  PACK_REFS_MAX,
  RECORD_CODEC_NONE,
  RECORD_CODEC_ZSTD,
  RECORD_HEADER_BYTES,
  type RecordCodec,
} from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { batchesOf } from '../batches.ts';
import { isProofOfRot, markRotten, storedObject } from '../contents.ts';
import type { Core } from '../core.ts';
import type { ContentRow, NodeRow, Space } from '../model.ts';
import type { PackedRecord } from '../pack-ports.ts';
import { CONTENT_PIECE_BYTES } from '../ports.ts';
import { isDamage } from '../store-failure.ts';
import { findRows, type RowFound } from './find-nodes.ts';

const RECORDS_AHEAD_MAX = 256;
/** Stored bytes that are read at once, at most, unless one record has more: so much is in memory. */
export const READ_AHEAD_BYTES_MAX = 1024 * 1024;
/** Pieces that are no longer hold records of one read, with their headers. */
export const RUN_BYTES_MAX = READ_AHEAD_BYTES_MAX + RECORDS_AHEAD_MAX * RECORD_HEADER_BYTES;

interface Wanted {
  readonly core: Core;
  readonly space: Space;
  readonly acceptsZstd: boolean;
}

interface Found {
  readonly node: NodeRow;
  readonly content: ContentRow;
}

const AHEAD = {
  itemsMax: RECORDS_AHEAD_MAX,
  bytesMax: READ_AHEAD_BYTES_MAX,
  bytesOf: ({ node }: Found): number => node.canonicalSize,
};

interface StoredBytes {
  readonly stored: Uint8Array;
  /** The bytes between it and the record before it were read with them, are nobody's, and are as many as a header has. */
  readonly hasGap: boolean;
}

interface OutgoingRecord extends StoredBytes {
  readonly hash: Hash;
  readonly codec: RecordCodec;
  readonly canonicalLength: number;
  readonly refCount: number;
}

/**
 * The pieces of the pack, in the order of `hashes`. What cannot be served whole is left out: absent, rotten, too large, or past the
 * end, which comes before the pack, its canonical bytes or its refs pass what a pack may hold. Rejects if the store fails. A record of more than
 * READ_AHEAD_BYTES_MAX is read once `makeRoom` has resolved, and is the last of its pieces: memory of its own, which is the caller's.
 */
export async function* readNodes(
  core: Core,
  space: Space,
  hashes: readonly Hash[],
  acceptsZstd: boolean,
  makeRoom: (bytes: number) => Awaitable<void> = () => undefined,
): AsyncGenerator<Uint8Array[]> {
  const wanted: Wanted = { core, space, acceptsZstd };
  let packBytes = PACK_HEADER_BYTES;
  let canonicalBytes = 0;
  let refCount = 0;
  let pieces: Uint8Array[] = [encodePackHeader()];
  for (const some of groupsOf(hashes, 512)) {
    const rows = await findRows(core, space, some);
    for (const batch of batchesOf(rows.filter(isServed), AHEAD)) {
      const [{ node }] = batch as [Found];
      if (node.canonicalSize > READ_AHEAD_BYTES_MAX) await makeRoom(node.canonicalSize);
      for (const record of await readBatch(wanted, batch)) {
        const { stored, hash, codec, canonicalLength } = record;
        packBytes += RECORD_HEADER_BYTES + stored.length;
        canonicalBytes += canonicalLength;
        refCount += record.refCount;
        if (packBytes > PACK_BYTES_MAX || canonicalBytes > PACK_BYTES_MAX || refCount > PACK_REFS_MAX) {
          yield pieces;
          return;
        }
        append(
          pieces,
          encodeRecordHeader({ hash, codec, storedLength: stored.length, canonicalLength }),
          record,
        );
      }
      yield pieces;
      pieces = [];
    }
  }
  if (pieces.length > 0) yield pieces;
}

/** Most records of a pack are wanted in its order. Those stay where they were read, as one piece, and get their headers there. */
function append(pieces: Uint8Array[], header: Uint8Array, { stored, hasGap }: StoredBytes): void {
  const last = pieces.at(-1);
  const start = stored.byteOffset - header.length;
  if (hasGap && last?.buffer === stored.buffer && last.byteOffset + last.length === start) {
    const bytes = last.length + header.length + stored.length;
    const joined = new Uint8Array(stored.buffer, last.byteOffset, bytes);
    joined.set(header, last.length);
    pieces[pieces.length - 1] = joined;
  } else pieces.push(header, stored);
}

/** A damaged row is left out, as one that is not there: it is answered 503 by itself. */
function isServed(row: RowFound): row is Found {
  return (
    typeof row === 'object' &&
    row.node.state === 'ready' &&
    row.content !== undefined &&
    row.node.canonicalSize <= PACK_NODE_BYTES_MAX
  );
}

/** The records of one pack are read together. One that is proven bad is left out, and its row becomes rotten. */
async function readBatch(wanted: Wanted, batch: readonly Found[]): Promise<OutgoingRecord[]> {
  const packed = await readPacked(wanted, batch);
  const records: OutgoingRecord[] = [];
  for (const found of batch) {
    const stored = packed.get(found.node.hash);
    const record = stored === undefined ? await readOne(wanted, found) : recordOf(found, stored);
    if (record !== undefined) records.push(record);
  }
  return records;
}

/** Stored bytes by hash, of those records that go out as they are. None if one of them is bad: then each is read by itself. */
async function readPacked(
  { core, space, acceptsZstd }: Wanted,
  batch: readonly Found[],
): Promise<Map<Hash, StoredBytes>> {
  const byPack = new Map<string, Found[]>();
  for (const found of batch) {
    const { packed } = found.content;
    if (packed === undefined || (packed.codec === RECORD_CODEC_ZSTD && !acceptsZstd)) continue;
    const together = byPack.get(packed.pack);
    if (together === undefined) byPack.set(packed.pack, [found]);
    else together.push(found);
  }
  const found = new Map<Hash, StoredBytes>();
  for (const together of byPack.values()) {
    const sorted = together.toSorted((left, right) => offsetOf(left) - offsetOf(right));
    const records = sorted.map(({ content }) => packedRecordOf(content));
    try {
      const read = await core.content.packs.readRecords(space, records);
      for (const [index, { node }] of sorted.entries()) {
        const stored = read[index] as Uint8Array;
        found.set(node.hash, { stored, hasGap: hasGap(read[index - 1], stored) });
      }
    } catch (error) {
      if (!isProofOfRot(error)) throw error;
    }
  }
  return found;
}

function hasGap(before: Uint8Array | undefined, stored: Uint8Array): boolean {
  if (before === undefined || before.buffer !== stored.buffer) return false;
  return before.byteOffset + before.length + RECORD_HEADER_BYTES === stored.byteOffset;
}

const offsetOf = ({ content }: Found): number => content.packed?.offset ?? 0;

function packedRecordOf({ packed, integrity }: ContentRow): PackedRecord {
  if (packed === undefined) throw new Error('this content is no record of a pack');
  return { place: packed, integrity };
}

function recordOf({ node, content }: Found, { stored, hasGap }: StoredBytes): OutgoingRecord {
  return outgoing(node, content.packed?.codec ?? RECORD_CODEC_NONE, stored, hasGap);
}

function outgoing(
  { hash, canonicalSize: canonicalLength, refs }: NodeRow,
  codec: RecordCodec,
  stored: Uint8Array,
  hasGap = false,
): OutgoingRecord {
  return { hash, codec, canonicalLength, refCount: refs.length / HASH_BYTES, stored, hasGap };
}

/** `undefined`: it cannot be served now. A row that has changed meanwhile, as by compaction, is looked at again. */
async function readOne(
  wanted: Wanted,
  { node, content }: Found,
  // if the row of the record changes while it is read
  looksLeft = 2,
): Promise<OutgoingRecord | undefined> {
  const { core, space, acceptsZstd } = wanted;
  const { hash } = node;
  try {
    const { packed } = content;
    if (packed !== undefined && (acceptsZstd || packed.codec === RECORD_CODEC_NONE)) {
      const stored = await core.content.packs.readRecord(space, packedRecordOf(content));
      return outgoing(node, packed.codec, stored);
    }
    return outgoing(node, RECORD_CODEC_NONE, await readCanonical(wanted, content));
  } catch (error) {
    if (!isProofOfRot(error)) {
      if (!isDamage(error)) throw error;
      return undefined;
    }
    const outcome = await markRotten(core, space, node, error, content.packed);
    if (outcome !== 'changed' || looksLeft === 0) return undefined;
    const [again] = await core.metadata.findNodesWithContent(space, [hash]);
    return isServed(again) ? readOne(wanted, again, looksLeft - 1) : undefined;
  }
}

async function readCanonical({ core, space }: Wanted, content: ContentRow): Promise<Uint8Array> {
  const { inlineBytes, canonicalSize } = content;
  if (inlineBytes !== undefined) {
    core.content.verifyInline(content);
    return inlineBytes;
  }
  const object = storedObject(space, content);
  if (content.packed !== undefined || canonicalSize <= CONTENT_PIECE_BYTES) {
    return core.content.read(object, 0, canonicalSize);
  }
  const bytes = new Uint8Array(canonicalSize);
  for (let start = 0; start < canonicalSize; start += CONTENT_PIECE_BYTES) {
    const end = Math.min(start + CONTENT_PIECE_BYTES, canonicalSize);
    bytes.set(await core.content.read(object, start, end), start);
  }
  return bytes;
}
