/**
 * The code of all engines for records of packs: the integrity record of stored bytes, and how they become canonical bytes.
 *
 * The integrity record: one byte of version, 1, then the xxHash3 (64 bits, little-endian) of all stored bytes of the record. It
 * finds damage; forgery is found by the digest. An engine may put its own facts about the object beside it.
 */

import { promisify } from 'node:util';
import { zstdDecompress, zstdDecompressSync } from 'node:zlib';
import {
  bytesToHash,
  createUnzstd,
  findFrameFault,
  type Hash,
  walkZstdFrame,
  ZstdFrameError,
} from '@holdfast/protocol';
import type { PackPlace } from '../core/model.ts';
import type { PackStore } from '../core/pack-ports.ts';
import type { StoredObject } from '../core/ports.ts';
import { sha256 } from '../core/signer.ts';
import { ContentDamaged } from '../core/store-failure.ts';

/** A decoder that fails for want of memory proves nothing against a record: then it is no verdict, and the node does not rot. */
export const unzstd = createUnzstd({
  decompressStated: (frame) => Bun.zstdDecompressSync(frame as Uint8Array<ArrayBuffer>),
  decompressBounded: (frame, maxOutputLength) => zstdDecompressSync(frame, { maxOutputLength }),
});

const VERSION = 1;

/** bytes of an integrity record, whatever the length of what it proves */
export const RECORD_INTEGRITY_BYTES = 9;

const unpackElsewhere = promisify(zstdDecompress) as (
  frame: Uint8Array,
  options: { readonly maxOutputLength: number; readonly chunkSize: number },
) => Promise<Uint8Array>;

/** A node whose bytes are the record of a pack. */
export type PackedNode = StoredObject & { readonly packed: PackPlace };

export function isPacked(object: StoredObject): object is PackedNode {
  return object.packed !== undefined;
}

export function makeRecordIntegrity(stored: Uint8Array): Uint8Array {
  const record = new Uint8Array(RECORD_INTEGRITY_BYTES);
  record[0] = VERSION;
  new DataView(record.buffer).setBigUint64(1, Bun.hash.xxHash3(stored), true);
  return record;
}

/** @throws ContentDamaged when `integrity` is no integrity record of a pack's record */
export function isRecordIntact(stored: Uint8Array, integrity: Uint8Array): boolean {
  // A flipped bit in the database can turn bytes into text or a number.
  const isRecord =
    integrity instanceof Uint8Array &&
    integrity.length === RECORD_INTEGRITY_BYTES &&
    integrity[0] === VERSION;
  if (!isRecord) throw new ContentDamaged('the integrity record is not one of a record in a pack');
  const view = new DataView(integrity.buffer, integrity.byteOffset, integrity.byteLength);
  return Bun.hash.xxHash3(stored) === view.getBigUint64(1, true);
}

/** Canonical bytes [start, end). Errors as of `ContentStore.read`. */
export async function readPackedNode(
  packs: Pick<PackStore, 'readRecord'>,
  object: PackedNode,
  start: number,
  end: number,
): Promise<Uint8Array> {
  const bytes = await readCanonical(packs, object);
  return bytes.subarray(start, end);
}

/** The canonical bytes of proven stored bytes of a small node. `undefined`: `readPackedNode` has to tell what is wrong. */
export function findCanonicalNow(stored: Uint8Array, object: PackedNode): Uint8Array | undefined {
  const { packed, canonicalSize } = object;
  try {
    const bytes = packed.codec === 0 ? stored : unpackHere(stored, canonicalSize);
    return bytes?.length === canonicalSize ? bytes : undefined;
  } catch {
    return undefined;
  }
}

function unpackHere(frame: Uint8Array, canonicalSize: number): Uint8Array | undefined {
  const walk = walkZstdFrame(frame, canonicalSize);
  return walk.fault === undefined ? unzstd(frame, canonicalSize, walk.frame) : undefined;
}

/** Proves that the canonical bytes come out of the record. */
export async function provePackedNode(
  packs: Pick<PackStore, 'readRecord'>,
  object: PackedNode,
): Promise<void> {
  await readCanonical(packs, object);
}

/** The same, with the digest. */
export async function verifyPackedNode(
  packs: Pick<PackStore, 'readRecord'>,
  object: PackedNode,
  hash: Hash,
): Promise<void> {
  if (bytesToHash(sha256(await readCanonical(packs, object))) !== hash)
    throw damaged(object, 'does not have its digest');
}

async function readCanonical(packs: Pick<PackStore, 'readRecord'>, object: PackedNode): Promise<Uint8Array> {
  const { space, packed, integrity } = object;
  return unpackRecord(await packs.readRecord(space, { place: packed, integrity }), object);
}

/** The canonical bytes of proven stored bytes. @throws ContentDamaged */
async function unpackRecord(
  stored: Uint8Array,
  object: Pick<PackedNode, 'generation' | 'canonicalSize' | 'packed'>,
): Promise<Uint8Array> {
  const { canonicalSize, packed } = object;
  const bytes = packed.codec === 0 ? stored : await unpackFrame(stored, object);
  if (bytes.length !== canonicalSize) {
    throw damaged(object, `holds ${bytes.length} canonical bytes instead of ${canonicalSize}`);
  }
  return bytes;
}

async function unpackFrame(
  frame: Uint8Array,
  object: Pick<PackedNode, 'generation' | 'canonicalSize' | 'packed'>,
): Promise<Uint8Array> {
  const { canonicalSize } = object;
  const walk = walkZstdFrame(frame, canonicalSize);
  if (walk.fault !== undefined) throw damaged(object, `holds no frame: ${walk.fault}`);
  try {
    // Larger nodes are unpacked in another thread.
    if (canonicalSize <= 64 * 1024) return unzstd(frame, canonicalSize, walk.frame);
    // One chunk that is never full: several would be copied together.
    return await unpackElsewhere(frame, { maxOutputLength: canonicalSize, chunkSize: canonicalSize + 1 });
  } catch (error) {
    // A decoder without memory, say, proves nothing: the node must not rot by it.
    const isFault = error instanceof ZstdFrameError || findFrameFault(error, canonicalSize) !== undefined;
    if (!isFault) throw error;
    throw damaged(object, `holds no frame of ${canonicalSize} bytes`, { cause: error });
  }
}

function damaged(
  { generation, packed }: Pick<PackedNode, 'generation' | 'packed'>,
  how: string,
  options?: ErrorOptions,
): ContentDamaged {
  return new ContentDamaged(
    `the record of generation ${generation}, at byte ${packed.offset} of pack ${packed.pack}, ${how}`,
    options,
  );
}
