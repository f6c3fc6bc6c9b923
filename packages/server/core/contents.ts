/** A generation's bytes: how they are let go, and what proof of rot does to a row (docs/design.md, Rot and healing). */
import { ApiError, bytesToHash, type Hash } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { assertInvariant } from './invariant.ts';
import type { ContentRow, Generation, NodeRow, Space, UploadRow } from './model.ts';
import { ContentDamaged, ContentLost, type SpaceTransaction, type StoredObject } from './ports.ts';
import { sha256 } from './sha256.ts';

/**
 * Lets go of a closed generation's bytes. Inline bytes go with this transaction; an object is recorded for deletion, which
 * the sweep does outside any transaction, and does again once no URL can bring the object back.
 */
export async function closeContent(
  tx: SpaceTransaction,
  { generation, inline, urlExpiresAt }: ClosedContent,
): Promise<void> {
  await tx.deleteContent(generation);
  if (!inline) await tx.setDiscard({ generation, dueAt: tx.now, urlExpiresAt });
}

interface ClosedContent {
  readonly generation: Generation;
  readonly inline: boolean;
  /** as ContentRow's */
  readonly urlExpiresAt: number;
}

/** When the last URL by which a client can write the key of this upload expires; 0 where our own target judges every PUT. */
export function urlExpiryOf(core: Core, upload: UploadRow): number {
  return core.content.upload.kind === 'direct' ? upload.urlExpiresAt : 0;
}

/** The same of rows that have content, aligned with them. */
export async function findUrlExpiries(
  core: Core,
  tx: SpaceTransaction,
  rows: readonly NodeRow[],
): Promise<readonly number[]> {
  if (core.content.upload.kind === 'server') return rows.map(() => 0);
  const contents = await Promise.all(
    rows.map(({ inline, generation }) => (inline ? undefined : tx.findContent(generation))),
  );
  return contents.map((content) => content?.urlExpiresAt ?? 0);
}

export function storedObject(space: Space, content: ContentRow): StoredObject {
  return {
    space,
    generation: content.generation,
    canonicalSize: content.canonicalSize,
    integrity: content.integrity,
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

/**
 * Proof in hand, makes the row rotten, if it is still ready and still points at the same key; anything else has changed
 * since and is left alone. Inline bytes are in the same store, so they are proven again here. Resolves whether the row
 * is rotten now with that very content; `changed`: it was collected or healed meanwhile, so look again.
 */
export async function markRotten(
  core: Core,
  space: Space,
  proven: NodeRow,
  proof: ContentDamaged | ContentLost,
): Promise<'marked' | 'rotten-already' | 'changed'> {
  const outcome = await core.metadata.transact(space, async (tx) => {
    const row = await tx.findNode(proven.hash);
    if (row === undefined || row.generation !== proven.generation) return 'changed';
    if (row.state !== 'ready') return row.state === 'rotten' ? 'rotten-already' : 'changed';
    if (row.inline && !(await isInlineRotten(core, tx, row))) return 'changed';
    await tx.updateNode(row, { ...row, state: 'rotten' });
    return 'marked';
  });
  if (outcome === 'marked') core.rottenNodes.noteRotten(space, proven.hash, proof);
  return outcome;
}

/** All there is to prove of inline bytes: length, checksum, digest. Throws ContentDamaged. */
export function verifyInlineNode(core: Core, content: ContentRow, hash: Hash): void {
  core.content.verifyInline(content);
  const { inlineBytes } = content;
  if (inlineBytes === undefined || bytesToHash(sha256(inlineBytes)) !== hash) {
    throw new ContentDamaged('inline bytes do not have their digest');
  }
}

async function isInlineRotten(core: Core, tx: SpaceTransaction, row: NodeRow): Promise<boolean> {
  const content = await tx.findContent(row.generation);
  if (content === undefined) return true;
  try {
    verifyInlineNode(core, content, row.hash);
    return false;
  } catch (error) {
    if (isProofOfRot(error)) return true;
    throw error;
  }
}

/** The reverse: a scrub found the bytes good again. Resolves whether this made the row ready. */
export async function markSound(core: Core, space: Space, proven: NodeRow): Promise<boolean> {
  const isSound = await core.metadata.transact(space, async (tx) => {
    const row = await tx.findNode(proven.hash);
    if (row?.state !== 'rotten' || row.generation !== proven.generation) return false;
    assertInvariant(row.waitingTouchedAt === 0, 'a rotten row never waits');
    await tx.updateNode(row, { ...row, state: 'ready' });
    return true;
  });
  if (isSound) core.rottenNodes.noteReady(space, proven.hash, 'sound');
  return isSound;
}
