/** Rows of packs and objects with records, for the engines' contract suites. */
import type { ContentRow, Generation, PackCodec, PackPlace } from '../../core/model.ts';
import type { PackRow } from '../../core/pack-model.ts';
import type { PackedRecord } from '../../core/pack-ports.ts';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import type { ContentUnderTest } from './content-under-test.ts';
import { NOW, newGeneration, SPACE, sampleNode } from './samples.ts';

/** bytes of a pack's record besides its stored bytes, and of the pack besides its records */
export const RECORD_HEADER_BYTES = 44;
export const PACK_HEADER_BYTES = 8;

export function openPack(changes: Partial<PackRow> = {}): PackRow {
  const generation = newGeneration();
  return {
    id: generation,
    generation,
    state: 'open',
    createdAt: NOW,
    urlExpiresAt: NOW + 1000,
    touchedAt: NOW,
    asked: new Uint8Array(32).fill(7),
    bytes: undefined,
    publishedCount: 0,
    reserved: { bytes: 0, nodes: 0 },
    isDiscarded: false,
    ...changes,
  };
}

export const judgedPack = (changes: Partial<PackRow> = {}): PackRow =>
  openPack({ state: 'judged', bytes: 1_000_000, publishedCount: 1, ...changes });

export function placeIn(pack: Generation, offset: number, storedLength = 100): PackPlace {
  return { pack, offset, storedLength, codec: 0 };
}

export function packedContent(packed: PackPlace, generation = newGeneration()): ContentRow {
  return {
    generation,
    canonicalSize: packed.storedLength,
    integrity: new Uint8Array([1, packed.offset & 0xff]),
    inlineBytes: undefined,
    packed,
    urlExpiresAt: 0,
  };
}

export interface SampleRecord {
  readonly node: Uint8Array;
  readonly hash: string;
  readonly stored: Uint8Array;
  readonly place: PackPlace;
  /** as `StoredObject` of the node */
  readonly object: StoredObject;
  readonly record: PackedRecord;
}

/**
 * Stores a pack as the complete object of a generation, as an upload would. `sizes`: content bytes of its nodes; every second one is
 * compressed.
 */
export async function putPack(
  subject: ContentUnderTest,
  sizes: readonly number[],
): Promise<{
  readonly generation: Generation;
  readonly bytes: Uint8Array;
  readonly records: SampleRecord[];
}> {
  const generation = newGeneration();
  const { bytes, drafts } = makePack(generation, sizes);
  await putObject(subject, generation, bytes);
  const integrities = await inspectRecords(
    subject.opened.store,
    generation,
    drafts.map(({ stored }) => stored),
  );
  const records = drafts.map((draft, index) => {
    const integrity = integrities[index] as Uint8Array;
    const { place, node } = draft;
    const object = {
      ...{ space: SPACE, generation: newGeneration(), canonicalSize: node.length },
      ...{ integrity, packed: place },
    };
    return { ...draft, object, record: { place, integrity } };
  });
  return { generation, bytes, records };
}

type Draft = Pick<SampleRecord, 'node' | 'hash' | 'stored' | 'place'>;

export function makePack(
  generation: Generation,
  sizes: readonly number[],
): { bytes: Uint8Array; drafts: Draft[] } {
  const pieces: Uint8Array[] = [new Uint8Array(PACK_HEADER_BYTES).fill(1)];
  let offset = PACK_HEADER_BYTES;
  const drafts = sizes.map((size, index): Draft => {
    const { hash, node } = sampleNode(size, index);
    const codec: PackCodec = index % 2 === 0 ? 0 : 1;
    const stored = codec === 0 ? node : new Uint8Array(Bun.zstdCompressSync(node));
    pieces.push(new Uint8Array(RECORD_HEADER_BYTES).fill(2), stored);
    offset += RECORD_HEADER_BYTES;
    const place = { pack: generation, offset, storedLength: stored.length, codec };
    offset += stored.length;
    return { node, hash, stored, place };
  });
  return { bytes: new Uint8Array(Buffer.concat(pieces)), drafts };
}

async function putObject(
  { opened }: ContentUnderTest,
  generation: Generation,
  bytes: Uint8Array,
): Promise<void> {
  const { upload } = opened.store;
  if (upload.kind === 'direct') {
    await opened.put(generation, bytes);
    return;
  }
  const target = { space: SPACE, generation };
  const staged = await upload.receiver.receivePack(target, bytes, bytes.length, bytes.length);
  await staged.seal();
  opened.finish(generation);
  await staged.release();
}

/** The integrity records of stored bytes, as a lease learns them. */
async function inspectRecords(
  store: ContentStore,
  generation: Generation,
  stored: readonly Uint8Array[],
): Promise<readonly Uint8Array[]> {
  const found = await store.packs.inspect(SPACE, generation, async ({ integrityOf, read }) => {
    for await (const _ of read());
    return stored.map((bytes) => integrityOf(bytes));
  });
  if (found === undefined) throw new Error('the sample is not there');
  return found;
}
