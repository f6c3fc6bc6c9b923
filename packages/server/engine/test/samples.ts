/** Rows and nodes for the engines' contract suites. */
import { encodeNode, type Hash } from '@holdfast/protocol';
import type { DiscardRow, Generation, NodeRow, Space, UploadRow } from '../../core/model.ts';
import {
  type Clock,
  CONTENT_PIECE_BYTES,
  type ContentStore,
  type MetadataStore,
  type SpaceTransaction,
  type StoredObject,
} from '../../core/ports.ts';
import type { UploadUrlLife } from '../../core/upload-ports.ts';

export const SPACE: Space = { appId: 'app', spaceId: 'space' };
/** A day in the year 2033: later than any lease of 0, earlier than the largest integer. */
export const NOW = 2_000_000_000_000;

export class ManualClock implements Clock {
  #now = NOW;

  now(): number {
    return this.#now;
  }

  set(now: number): void {
    this.#now = now;
  }
}

/** The `index`-th hash in hash order. No two differ in one bit alone: a store takes such rows for damage. */
export function hashAt(index: number): Hash {
  const place = index.toString(16).padStart(8, '0');
  return place + Bun.hash(place).toString(16).padStart(14, '0').slice(0, 14).repeat(4);
}

let generationsMade = 0;

export function newGeneration(): Generation {
  generationsMade += 1;
  // In order, and no two differ in one bit alone.
  const spread = Bun.hash(String(generationsMade)).toString(16).padStart(16, '0').slice(0, 12);
  return NOW.toString(16).padStart(12, '0') + generationsMade.toString(16).padStart(8, '0') + spread;
}

export function readyNode(hash: Hash, changes: Partial<NodeRow> = {}): NodeRow {
  return {
    hash,
    state: 'ready',
    size: 100,
    canonicalSize: 134,
    contentType: 'text/plain',
    refs: new Uint8Array(0),
    generation: newGeneration(),
    storage: 'inline',
    storedSize: 134,
    leaseStartedAt: 0,
    leaseExpiresAt: 0,
    childRefCount: 0,
    rootRefCount: 0,
    heldDomainCount: 0,
    waitingTouchedAt: 0,
    claimHeldUntil: 0,
    ...changes,
  };
}

export function openUpload(hash: Hash, changes: Partial<UploadRow> = {}): UploadRow {
  return {
    hash,
    generation: newGeneration(),
    createdAt: NOW,
    urlExpiresAt: NOW + 1000,
    touchedAt: NOW,
    rejection: undefined,
    evidence: undefined,
    ...changes,
  };
}

export function discardOf(generation: Generation, changes: Partial<DiscardRow> = {}): DiscardRow {
  return { generation, dueAt: NOW, urlExpiresAt: 0, ...changes };
}

/** A valid canonical node of about `bytes` bytes whose content differs by `seed`. */
export function sampleNode(bytes: number, seed: number): { hash: Hash; node: Uint8Array } {
  const content = new Uint8Array(bytes);
  for (let index = 0; index < bytes; index++) content[index] = (index * 31 + seed * 7 + (index >> 8)) & 0xff;
  const node = encodeNode({ contentType: 'application/octet-stream', refs: [], content });
  return { hash: digestOf(node), node };
}

export function digestOf(bytes: Uint8Array): Hash {
  return new Bun.CryptoHasher('sha256').update(bytes).digest('hex');
}

export async function insertNodes(
  store: MetadataStore,
  space: Space,
  rows: readonly NodeRow[],
): Promise<void> {
  await store.transact(space, async (tx) => {
    for (const row of rows) await tx.insert('node', row);
  });
}

export async function readNode(tx: SpaceTransaction, hash: Hash): Promise<NodeRow> {
  const row = await tx.findNode(hash);
  if (row === undefined) throw new Error(`no node ${hash}`);
  return row;
}

export async function updateNode(
  store: MetadataStore,
  space: Space,
  hash: Hash,
  changes: Partial<NodeRow>,
): Promise<void> {
  await store.transact(space, async (tx) => {
    const row = await readNode(tx, hash);
    await tx.update('node', row, { ...row, ...changes });
  });
}

/** The life of an upload URL that is issued now and ends at this instant. */
export const urlLifeUntil = (expiresAt: number): UploadUrlLife => ({
  issuedAt: expiresAt - URL_LIFE_MS,
  expiresAt,
});
const URL_LIFE_MS = 60_000;

/** Canonical bytes [start, end), asked for piece by piece. */
export async function readObject(
  store: ContentStore,
  object: StoredObject,
  start = 0,
  end = object.canonicalSize,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(end - start);
  for (let from = start; from < end; from += CONTENT_PIECE_BYTES) {
    bytes.set(await store.read(object, from, Math.min(from + CONTENT_PIECE_BYTES, end)), from - start);
  }
  return bytes;
}
