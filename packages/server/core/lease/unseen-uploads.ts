/** Uploads to the store that no lease has judged: counts them for quotas, and deletes at once those that a quota refuses. */
import { groupsOf, type Hash } from '@holdfast/protocol';
import { closeContent } from '../contents.ts';
import type { Core } from '../core.ts';
import type { Generation, Receiving } from '../model.ts';
import type { PackId } from '../pack-model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { QuotaExceeded } from '../quotas.ts';
import type { UnseenUpload } from '../upkeep-ports.ts';
import { PUT_DURATION_MS_MAX } from '../upload-ports.ts';
import { ReceiptRoom, refuse } from './receipt-room.ts';

/** The store judges each PUT by itself: none is known before it has ended. */
const NOTHING_RECEIVING: Receiving = { heldBefore: () => 0, pause: async () => undefined };

export class UnseenUploads {
  readonly #core: Core;
  #after: string | undefined;

  constructor(core: Core) {
    this.#core = core;
  }

  /** One bounded step of a walk that begins again at its end. One upload that cannot be counted does not hold up the others. */
  async look(): Promise<void> {
    const { content, metadata } = this.#core;
    const { upload } = content;
    if (upload.kind !== 'direct') return;
    const urlsEndAfter = (await metadata.readClock()) - PUT_DURATION_MS_MAX;
    // Each upload costs the store a request.
    const walk = { after: this.#after, urlsEndAfter, limit: 512 };
    const { items, next } = await metadata.page('unseenUploads', walk);
    this.#after = next;
    const failures: unknown[] = [];
    // Requests at a time.
    for (const some of groupsOf(items, 16)) {
      const sizes = await Promise.allSettled(
        some.map(({ space, generation }) => upload.findBytes(space, generation)),
      );
      for (const [index, size] of sizes.entries()) {
        if (size.status === 'rejected') failures.push(size.reason);
        else if (size.value !== undefined)
          await countUnseen(this.#core, some[index] as UnseenUpload, size.value).catch((error) => {
            if (!(error instanceof QuotaExceeded)) failures.push(error);
          });
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

/**
 * Counts an upload that nobody has seen before: it is pending from now on. If a quota refuses its bytes they are deleted, and this
 * rejects with QuotaExceeded. An upload that a lease judged meanwhile, or that was seen, is left alone.
 */
export async function countUnseen(core: Core, unseen: UnseenUpload, bytes: number): Promise<void> {
  const { metadata } = core;
  const { space, generation, of } = unseen;
  const room = new ReceiptRoom(core, space, { bytes, mayHeal: (isOnly) => mayHeal(core, unseen, isOnly) });
  try {
    await room.admit(NOTHING_RECEIVING);
  } catch (error) {
    if (!(error instanceof QuotaExceeded)) throw error;
    if (await metadata.transact(space, dropSeen, { generation, of }))
      throw await refuse(core, space, error.excess);
    return;
  }
  let isNoted = false;
  try {
    isNoted = await metadata.transact(space, noteSeen, { generation, of, bytes });
  } finally {
    room.settle(isNoted ? bytes : undefined);
  }
}

/** Only the lease of a pack can tell what it heals: one such pack at a time. */
async function mayHeal(
  { metadata, rottenNodes }: Core,
  { space, of }: UnseenUpload,
  isOnly: boolean,
): Promise<boolean> {
  if ('pack' in of) return isOnly && rottenNodes.countIn(space) > 0;
  return (await metadata.findNode(space, of.hash))?.state === 'rotten';
}

interface SeenUpload {
  readonly generation: Generation;
  readonly of: { readonly hash: Hash } | { readonly pack: PackId };
}

/** Resolves false if a lease was faster. */
export async function noteSeen(
  tx: SpaceTransaction,
  { generation, of, bytes }: SeenUpload & { readonly bytes: number },
): Promise<boolean> {
  if ('pack' in of) {
    const pack = await tx.packs.findPack(of.pack);
    if (pack?.generation !== generation || pack.state !== 'open') return false;
    await tx.update('pack', pack, { ...pack, bytes });
    return true;
  }
  const upload = await tx.findUpload(of.hash);
  if (upload?.generation !== generation || upload.evidence !== undefined) return false;
  await tx.update('upload', upload, { ...upload, seenBytes: bytes });
  return true;
}

/** Closes the upload with its bytes: the next lease opens a new one. Resolves false if it was judged or seen meanwhile. */
export async function dropSeen(tx: SpaceTransaction, { generation, of }: SeenUpload): Promise<boolean> {
  const close = (urlExpiresAt: number) => closeContent(tx, { generation, storage: 'object', urlExpiresAt });
  if ('pack' in of) {
    const pack = await tx.packs.findPack(of.pack);
    if (pack?.generation !== generation || pack.state !== 'open' || pack.bytes !== undefined) return false;
    await tx.delete('pack', pack);
    await close(pack.urlExpiresAt);
    return true;
  }
  const upload = await tx.findUpload(of.hash);
  if (upload?.generation !== generation || upload.evidence !== undefined) return false;
  if (upload.seenBytes !== undefined) return false;
  await tx.delete('upload', upload);
  await close(upload.urlExpiresAt);
  return true;
}
