/** A generation's bytes: how they are discarded, and what proof of rot does to a row (docs/design.md, Rot and healing). */
import { ApiError, bytesToHash, type Hash } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { assertInvariant } from './invariant.ts';
import type { ContentRow, Generation, NodeRow, NodeStorage, PackPlace, Space, UploadRow } from './model.ts';
import type { SpaceTransaction, StoredObject } from './ports.ts';
import { sha256 } from './signer.ts';
import { ContentDamaged, ContentLost, isDamage, orIfDamaged, RowDamaged } from './store-failure.ts';
import type { UploadKind } from './upload-ports.ts';

/** Discards a closed generation's bytes: inline bytes and pack records here; the sweep deletes an object once no URL can write it. */
export async function closeContent(
  tx: SpaceTransaction,
  { generation, storage, urlExpiresAt, keptMs = 0 }: ClosedContent,
): Promise<void> {
  await tx.delete('content', generation);
  if (storage === 'object') await tx.insert('discard', { generation, dueAt: tx.now + keptMs, urlExpiresAt });
}

/** Discards the bytes that a row points at, before it gets others. Healing keeps them for a while, unlike a collection that has begun. */
export async function closeContentOf(
  tx: SpaceTransaction,
  row: NodeRow,
  { uploads, keepReplacedMs, left }: ReplacementRules,
): Promise<void> {
  const { generation, storage } = row;
  if (left?.has(generation)) return;
  const [urlExpiresAt = 0] = await findUrlExpiries(tx, [row], uploads);
  const keptMs = row.state === 'claimed' ? 0 : keepReplacedMs;
  await closeContent(tx, { generation, storage, urlExpiresAt, keptMs });
}

export interface ReplacementRules {
  readonly uploads: UploadKind;
  /** as of CoreSettings */
  readonly keepReplacedMs: number;
  readonly left?: LeftRecords | undefined;
}

export function replacementRulesOf({
  content,
  settings,
}: Pick<Core, 'content' | 'settings'>): ReplacementRules {
  return { uploads: content.upload.kind, keepReplacedMs: settings.keepReplacedMs };
}

interface ClosedContent {
  readonly generation: Generation;
  readonly storage: NodeStorage;
  /** as ContentRow's */
  readonly urlExpiresAt: number;
  /** ms that the object stays; left out: 0 */
  readonly keptMs?: number;
}

/** When the last URL by which a client can write the key of this upload expires; 0 where our own target judges every PUT. */
export function urlExpiryOf(uploads: UploadKind, upload: UploadRow): number {
  return uploads === 'direct' ? upload.urlExpiresAt : 0;
}

/** The same for rows that have content, aligned with them. */
export async function findUrlExpiries(
  tx: SpaceTransaction,
  rows: readonly NodeRow[],
  uploads: UploadKind,
): Promise<readonly number[]> {
  if (uploads === 'server') return rows.map(() => 0);
  const contents = await Promise.all(
    rows.map(({ storage, generation }) => (storage === 'object' ? tx.findContent(generation) : undefined)),
  );
  return contents.map((content) => content?.urlExpiresAt ?? 0);
}

export function storedObject(space: Space, content: ContentRow): StoredObject {
  return {
    space,
    generation: content.generation,
    canonicalSize: content.canonicalSize,
    integrity: content.integrity,
    packed: content.packed,
  };
}

export function isProofOfRot(error: unknown): error is ContentDamaged | ContentLost {
  return error instanceof ContentDamaged || error instanceof ContentLost;
}

export const rottenContent = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'the stored content of this node is damaged or lost; lease the node and upload its bytes again to heal it',
  );

type RotOutcome = 'marked' | 'rotten-already' | 'changed';
type ProvenContent = Pick<NodeRow, 'hash' | 'generation'>;

/**
 * Makes the row rotten on proof, if it is still ready and still points at the same key. A row that has changed since is left
 * alone. Inline bytes are read once more first. `packed`: the proof is about that record of a pack. Resolves `changed` if the row was
 * collected or healed, or its record moved, meanwhile: then the caller looks again. Any other result means that the row is rotten
 * now, with that very content.
 */
export async function markRotten(
  core: Core,
  space: Space,
  { hash, generation, storage }: NodeRow,
  proof: ContentDamaged | ContentLost,
  packed?: PackPlace,
): Promise<RotOutcome> {
  const found = storage === 'object' ? 'bad' : await lookAtRecord(core, space, { hash, generation });
  if (found === 'sound') return 'changed';
  const outcome = await core.metadata.transact(space, setRotten, { hash, generation, packed });
  if (outcome === 'marked') core.rottenNodes.noteRotten(space, hash, proof);
  return outcome;
}

interface RottenContent extends ProvenContent {
  /** where the bad bytes were read, if that is a record of a pack */
  readonly packed: PackPlace | undefined;
}

/** Marks the row alone: its record stays where it is, and may prove to be good (`setSound`). */
export async function setRotten(
  tx: SpaceTransaction,
  { hash, generation, packed }: RottenContent,
): Promise<RotOutcome> {
  const row = await tx.findNode(hash);
  if (row === undefined || row.generation !== generation) return 'changed';
  if (row.state !== 'ready') return row.state === 'rotten' ? 'rotten-already' : 'changed';
  if (packed !== undefined && !isSamePlace((await tx.findContent(generation))?.packed, packed)) {
    return 'changed';
  }
  await tx.update('node', row, { ...row, state: 'rotten' });
  return 'marked';
}

/** Proves inline bytes: length, checksum, digest. Throws ContentDamaged. */
export function verifyInlineNode(core: Pick<Core, 'content'>, content: ContentRow, hash: Hash): void {
  core.content.verifyInline(content);
  const { inlineBytes } = content;
  if (inlineBytes === undefined || bytesToHash(sha256(inlineBytes)) !== hash) {
    throw new ContentDamaged('inline bytes do not have their digest');
  }
}

function isSamePlace(left: PackPlace | undefined, right: PackPlace): boolean {
  return left?.pack === right.pack && left.offset === right.offset;
}

/**
 * Whether the content row of a node without an object is bad, or its inline bytes, not a pack's. `setRotten` checks whose it is.
 * Throws if it cannot be found, which proves nothing.
 */
async function lookAtRecord(
  core: Core,
  space: Space,
  proven: ProvenContent,
): Promise<'sound' | 'bad' | 'unreadable'> {
  try {
    const content = await core.metadata.transact(space, findContentOf, proven.generation);
    if (content === undefined) return 'bad';
    verifyInlineNode(core, content, proven.hash);
    return 'sound';
  } catch (error) {
    if (isProofOfRot(error) || error instanceof RowDamaged) return 'bad';
    if (isDamage(error) && !error.isIndex) return 'unreadable';
    throw error;
  }
}

/** Generations whose records can be neither read nor deleted: who lets go of them leaves them in the file. */
export type LeftRecords = ReadonlySet<Generation>;

/** Does `work`, and if damage fails it, once more around those records of `nodes` that cannot be deleted. */
export function aroundRecords<T>(
  core: Core,
  space: Space,
  nodes: readonly Pick<NodeRow, 'hash'>[],
  work: (left: LeftRecords | undefined) => Promise<T>,
): Promise<T> {
  return orIfDamaged(
    () => work(undefined),
    async (damage) => {
      const left = new Set<Generation>();
      for (const { hash } of nodes) {
        const row = await orIfDamaged(
          () => core.metadata.transact(space, findStanding, hash),
          () => undefined,
        );
        if (row === undefined || row.state === 'ready' || row.storage === 'object') continue;
        if ((await lookAtRecord(core, space, row)) === 'unreadable') left.add(row.generation);
      }
      if (left.size === 0) throw damage;
      return work(left);
    },
  );
}

/** The current row, damaged or not. */
export async function findStanding(tx: SpaceTransaction, hash: Hash): Promise<NodeRow | undefined> {
  return (await tx.mending.findUnproven(hash))?.row;
}

export async function findContentOf(
  tx: SpaceTransaction,
  generation: Generation,
): Promise<ContentRow | undefined> {
  return tx.findContent(generation);
}

/** Lets go of the record of a row that was removed because its node has another row. */
export async function dropRecord(tx: SpaceTransaction, { hash, generation }: ProvenContent): Promise<void> {
  const row = await tx.findNode(hash);
  if (row === undefined || row.generation === generation) return;
  if ((await tx.findContent(generation)) !== undefined) await tx.delete('content', generation);
}

/** Makes a rotten row ready again because a scrub found its bytes good. Resolves whether it did. */
export async function markSound(core: Core, space: Space, { hash, generation }: NodeRow): Promise<boolean> {
  const isSound = await core.metadata.transact(space, setSound, { hash, generation });
  if (isSound) core.rottenNodes.noteReady(space, hash, 'sound');
  return isSound;
}

export async function setSound(tx: SpaceTransaction, { hash, generation }: ProvenContent): Promise<boolean> {
  const row = await tx.findNode(hash);
  if (row?.state !== 'rotten' || row.generation !== generation) return false;
  assertInvariant(row.waitingTouchedAt === 0, 'a rotten row never waits');
  await tx.update('node', row, { ...row, state: 'ready' });
  return true;
}
