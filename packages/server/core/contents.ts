/** A generation's bytes: how they are let go, and what proof of rot does to a row (contract section 5, Rot). */
import { ApiError, bytesToHash, type Hash } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { assertInvariant } from './invariant.ts';
import type { ContentRow, Generation, NodeRow, Space } from './model.ts';
import { ContentDamaged, ContentLost, type SpaceTransaction, type StoredObject } from './ports.ts';
import { sha256 } from './sha256.ts';

/**
 * Lets go of a closed generation's bytes. Inline bytes go with this transaction; an object is recorded for deletion,
 * which the sweep does outside any transaction.
 */
export async function closeContent(
  tx: SpaceTransaction,
  generation: Generation,
  inline: boolean,
): Promise<void> {
  await tx.deleteContent(generation);
  if (!inline) await tx.addDiscard(generation);
}

const OBJECT_DELETES_IN_FLIGHT_MAX = 8;

/**
 * Deletes the objects of generations that nothing points at any more, outside any transaction. The first failure ends it;
 * those in flight beside it still count, so that one object that cannot be deleted does not hold up the others for ever.
 */
export async function deleteObjects(
  core: Core,
  space: Space,
  generations: readonly Generation[],
): Promise<{ readonly deleted: ReadonlySet<Generation>; readonly failure: unknown }> {
  const deleted = new Set<Generation>();
  let failure: unknown;
  let next = 0;
  const worker = async (): Promise<void> => {
    while (failure === undefined) {
      const generation = generations[next];
      next += 1;
      if (generation === undefined) return;
      try {
        await core.content.delete(generation, space);
        deleted.add(generation);
      } catch (error) {
        failure ??= error ?? new Error('delete failed');
      }
    }
  };
  await Promise.all(Array.from({ length: OBJECT_DELETES_IN_FLIGHT_MAX }, worker));
  return { deleted, failure };
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
 * is rotten now with that very content; false: it changed meanwhile (collected, healed), so look again.
 */
export async function markRotten(core: Core, space: Space, proven: NodeRow): Promise<boolean> {
  return core.metadata.transact(space, async (tx) => {
    const row = await tx.findNode(proven.hash);
    if (row === undefined || row.generation !== proven.generation) return false;
    if (row.state !== 'ready') return row.state === 'rotten';
    if (row.inline && !(await isInlineRotten(core, tx, row))) return false;
    await tx.updateNode(row, { ...row, state: 'rotten' });
    return true;
  });
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
  return core.metadata.transact(space, async (tx) => {
    const row = await tx.findNode(proven.hash);
    if (row?.state !== 'rotten' || row.generation !== proven.generation) return false;
    assertInvariant(row.waitingTouchedAt === 0, 'a rotten row never waits');
    await tx.updateNode(row, { ...row, state: 'ready' });
    return true;
  });
}
