/**
 * How each row and its bytes arrive (docs/operations.md, "Moving between engines"). A row keeps its facts. The target makes anew
 * what depends on its store of bytes: integrity records, whether bytes are a row, URL expiries. If the source proves bytes bad,
 * the node arrives in the state that a read at the source would give it.
 */
import { bytesToHash, type Hash } from '@holdfast/protocol';
import { toByteStream } from '../core/byte-stream.ts';
import { isProofOfRot, storedObject } from '../core/contents.ts';
import type { ContentRow, Generation, NodeRow, Space, UploadRow } from '../core/model.ts';
import { CONTENT_PIECE_BYTES, type ContentStore } from '../core/ports.ts';
import { sha256 } from '../core/signer.ts';
import { ContentDamaged, ContentLost, StoreUnavailable } from '../core/store-failure.ts';
import type { ContentIntake, NodeEntry, TakenContent, UploadEntry } from '../engine/transfer-ports.ts';
import type { DamagedNode } from './events.ts';

/** The integrity record of missing bytes: no store accepts it for an object, so reading the node proves rot. */
const NO_INTEGRITY: Uint8Array = new Uint8Array(0);

export interface Carrier {
  readonly source: ContentStore;
  readonly target: ContentIntake;
  onDamaged(node: DamagedNode): void;
}

export interface Arrival<T> {
  readonly entry: T;
  release(): Promise<void>;
}

type Taken = Extract<TakenContent, { isRight: true }>;

export async function carryNode(
  carrier: Carrier,
  space: Space,
  { row, content }: NodeEntry,
): Promise<Arrival<NodeEntry>> {
  // The bytes of a claimed row may have been deleted, and are never read again.
  if (row.state === 'claimed') return arriveWithout({ ...row, claimHeldUntil: 0 });
  const taken = await takeBytes(carrier, space, row.hash, row.generation, row.canonicalSize, content);
  if (!(taken instanceof Error)) return arriveWith(row, taken);
  if (row.state === 'rotten') return arriveWithout(row);
  const outcome = row.state === 'ready' ? 'rotten' : 'waiting';
  carrier.onDamaged({ space, hash: row.hash, reason: taken.message, outcome });
  return arriveWithout({ ...row, state: outcome });
}

function arriveWith(row: NodeRow, { integrity, inlineBytes, release }: Taken): Arrival<NodeEntry> {
  const content = contentOf(row.generation, row.canonicalSize, integrity, inlineBytes);
  return { entry: { row: { ...row, storage: storageOf(inlineBytes) }, content }, release };
}

function arriveWithout(row: NodeRow): Arrival<NodeEntry> {
  const content = contentOf(row.generation, row.canonicalSize, NO_INTEGRITY, undefined);
  return { entry: { row: { ...row, storage: 'object' }, content }, release: keepNothing };
}

/** An unfinished generation keeps its instants, rejection and complete object. To direct uploads no evidence goes: leases inspect. */
export async function carryUpload(
  carrier: Carrier,
  space: Space,
  { row: found, content }: UploadEntry,
): Promise<Arrival<UploadEntry>> {
  const row = { ...found, seenBytes: undefined };
  const { hash, generation } = row;
  const seen = row.evidence ?? (await inspect(carrier.source, space, row));
  if (seen === undefined) return { entry: { row, content: undefined }, release: keepNothing };
  if (seen.verdict === 'bad') {
    return { entry: { row: { ...row, evidence: seen }, content: undefined }, release: keepNothing };
  }
  const { canonicalSize } = seen;
  const known = content ?? contentOf(generation, canonicalSize, seen.integrity, undefined);
  const taken = await takeBytes(carrier, space, hash, generation, canonicalSize, known);
  if (taken instanceof Error) {
    carrier.onDamaged({ space, hash, reason: taken.message, outcome: 'upload-again' });
    return { entry: { row: { ...row, evidence: undefined }, content: undefined }, release: keepNothing };
  }
  const { integrity, inlineBytes, release } = taken;
  if (carrier.target.uploads === 'direct') {
    return { entry: { row: { ...row, evidence: undefined }, content: undefined }, release };
  }
  const evidence = { ...seen, integrity, inline: inlineBytes !== undefined };
  const arrived = contentOf(generation, canonicalSize, integrity, inlineBytes);
  return { entry: { row: { ...row, evidence }, content: arrived }, release };
}

/** Looks for an object only after direct uploads: our own upload target would have recorded a finished PUT. */
async function inspect(source: ContentStore, space: Space, row: UploadRow) {
  if (source.upload.kind === 'server') return undefined;
  const found = await source.inspect(space, row.generation, row.hash, NO_LIMIT);
  return found.found ? found.evidence : undefined;
}

/** A copy accepts nodes of any size. The target's server judges the size by its own limit at the next lease. */
const NO_LIMIT = { nodeBytesMax: Number.MAX_SAFE_INTEGER };

/** Resolves with what the target took, or with the proof that the source has no good bytes. Rejects with any other failure. */
async function takeBytes(
  { source, target }: Carrier,
  space: Space,
  hash: Hash,
  generation: Generation,
  canonicalSize: number,
  content: ContentRow | undefined,
): Promise<Taken | ContentDamaged | ContentLost> {
  if (content === undefined) return new ContentLost('its content record is gone');
  const take = () =>
    target.take({ space, generation, hash, canonicalSize }, () => readCanonicalBytes(source, space, content));
  try {
    const taken = await take();
    if (taken.isRight) return taken;
    // The bytes may have been damaged on the way. If the source finds its own bytes good, they are sent again.
    await verifyAtSource(source, space, hash, content);
    const again = await take();
    if (again.isRight) return again;
  } catch (error) {
    if (isProofOfRot(error)) return error;
    throw error;
  }
  throw new StoreUnavailable(
    `the bytes of node ${hash} change on their way from the source: check memory and network`,
  );
}

/** Rejects with ContentDamaged or ContentLost. */
export async function verifyAtSource(
  source: ContentStore,
  space: Space,
  hash: Hash,
  content: ContentRow,
): Promise<void> {
  if (content.inlineBytes === undefined) {
    await source.verify(storedObject(space, content), hash);
    return;
  }
  source.verifyInline(content);
  if (bytesToHash(sha256(content.inlineBytes)) !== hash) {
    throw new ContentDamaged('inline bytes do not have their digest');
  }
}

/** The content row in the target. Its `urlExpiresAt` is 0: no client ever had a URL for that key. */
function contentOf(
  generation: Generation,
  canonicalSize: number,
  integrity: Uint8Array,
  inlineBytes: Uint8Array | undefined,
): ContentRow {
  return { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 };
}

/** A copy holds no packs: the record of a pack arrives as bytes of its own. */
const storageOf = (inlineBytes: Uint8Array | undefined): NodeRow['storage'] =>
  inlineBytes === undefined ? 'object' : 'inline';

const keepNothing = async (): Promise<void> => undefined;

/** The stream fails with ContentDamaged or ContentLost if that is proven, otherwise with the store's own error. */
function readCanonicalBytes(
  source: ContentStore,
  space: Space,
  content: ContentRow,
): ReadableStream<Uint8Array> {
  const pieces =
    content.inlineBytes === undefined
      ? readObject(source, space, content)
      : readInline(source, content, content.inlineBytes);
  return toByteStream(pieces);
}

async function* readInline(
  source: ContentStore,
  content: ContentRow,
  bytes: Uint8Array,
): AsyncGenerator<Uint8Array> {
  source.verifyInline(content);
  yield bytes;
}

async function* readObject(
  source: ContentStore,
  space: Space,
  content: ContentRow,
): AsyncGenerator<Uint8Array> {
  const object = storedObject(space, content);
  for (let start = 0; start < object.canonicalSize; start += CONTENT_PIECE_BYTES) {
    yield await source.read(object, start, Math.min(start + CONTENT_PIECE_BYTES, object.canonicalSize));
  }
}
