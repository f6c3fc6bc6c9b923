/**
 * How each row and its bytes arrive (docs/operations.md, "Moving between engines"). Rows keep all they say; what follows from
 * the store of the bytes is made anew by the target: integrity records, whether bytes are a row, URL expiries. Bytes that the
 * source proves bad make a node arrive as it would stand after a read there.
 */
import { bytesToHash, type Hash } from '@holdfast/protocol';
import { isProofOfRot, storedObject } from '../core/contents.ts';
import type { ContentRow, Generation, NodeRow, Space, UploadRow } from '../core/model.ts';
import { ContentDamaged, ContentLost, type ContentStore, StoreUnavailable } from '../core/ports.ts';
import { sha256 } from '../core/sha256.ts';
import type { ContentIntake, NodeEntry, TakenContent, UploadEntry } from '../engine/transfer-ports.ts';
import { readCanonicalBytes } from './canonical-bytes.ts';
import type { DamagedNode } from './events.ts';

/** Of bytes that are not there: no store takes it for the record of an object, so a look at it proves rot. */
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
  // A claimed row's bytes may be gone, and are never read again.
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
  return { entry: { row: { ...row, inline: inlineBytes !== undefined }, content }, release };
}

function arriveWithout(row: NodeRow): Arrival<NodeEntry> {
  const content = contentOf(row.generation, row.canonicalSize, NO_INTEGRITY, undefined);
  return { entry: { row: { ...row, inline: false }, content }, release: keepNothing };
}

/**
 * An unfinished generation goes on with what it has: its instants, its rejection, and the object when one is complete. Where
 * clients PUT to the store itself an upload holds no evidence: the next lease looks at the object.
 */
export async function carryUpload(
  carrier: Carrier,
  space: Space,
  { row, content }: UploadEntry,
): Promise<Arrival<UploadEntry>> {
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

/** Of a generation whose PUT our own target would have recorded there is nothing to look for. */
async function inspect(source: ContentStore, space: Space, row: UploadRow) {
  if (source.upload.kind === 'server') return undefined;
  const found = await source.inspect(space, row.generation, row.hash, NO_LIMIT);
  return found.found ? found.evidence : undefined;
}

/** What is too large for the server that will serve the target is for its own leases to say. */
const NO_LIMIT = { nodeBytesMax: Number.MAX_SAFE_INTEGER };

/** What the target made of the bytes, or why the source has none. Rejects for any failure that proves nothing. */
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
    // Bytes may also be hurt on their way: what the source itself then finds good is sent again.
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

/** The record of bytes as the target has them: no URL of a client was ever signed for that key. */
function contentOf(
  generation: Generation,
  canonicalSize: number,
  integrity: Uint8Array,
  inlineBytes: Uint8Array | undefined,
): ContentRow {
  return { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 };
}

const keepNothing = async (): Promise<void> => undefined;
