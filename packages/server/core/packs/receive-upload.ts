/** The embedded upload target: one PUT, of a node or of a pack (docs/api.md, The upload target). */
import { ApiError, PACK_BYTES_MAX, PACK_MEDIA_TYPE } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { ReceiptRoom } from '../lease/receipt-room.ts';
import { receiveNode } from '../lease/receive-node.ts';
import { admitUpload, alreadyFinished, getReceiver, type UploadRequest } from '../lease/upload-rules.ts';
import { type PackGrant, parseUploadToken } from '../lease/upload-token.ts';
import type { StagedPack } from '../pack-ports.ts';
import { finishPack, type ReceivedPack } from './pack-decision.ts';

/** Resolves when the upload is durable. Throws FORBIDDEN (403), CONFLICT (412), PAYLOAD_TOO_LARGE (413). */
export async function receiveUpload(core: Core, request: UploadRequest): Promise<void> {
  getReceiver(core);
  const grant = parseUploadToken(core.signer, request.token);
  const allowed = request.onGrant?.(grant);
  if (allowed !== undefined) await allowed;
  await ('pack' in grant ? receivePack(core, request, grant) : receiveNode(core, request, grant));
}

/** Resolves when the pack is durable. Throws FORBIDDEN (403), CONFLICT (412), PAYLOAD_TOO_LARGE (413). */
async function receivePack(core: Core, request: UploadRequest, grant: PackGrant): Promise<void> {
  const receiver = await admitUpload(core, request, grant, PACK_MEDIA_TYPE);
  const { declaredLength } = request;
  const pack = await core.metadata.packs.findPack(grant.space, grant.pack);
  const isOpen = pack?.generation === grant.generation && pack.state === 'open' && pack.bytes === undefined;
  if (!isOpen) throw alreadyFinished();
  if (declaredLength !== undefined && declaredLength > PACK_BYTES_MAX) await finishTooLarge(core, grant);
  const { space, generation } = grant;
  const room = new ReceiptRoom(core, space, {
    bytes: declaredLength ?? PACK_BYTES_MAX,
    // Only the lease of the pack can tell what it heals: one such pack at a time.
    mayHeal: async (isOnly) => isOnly && core.rottenNodes.countIn(space) > 0,
  });
  const body = request.body ?? new Uint8Array(0);
  await room.receive(
    (admit) => receiver.receivePack({ space, generation }, body, declaredLength, PACK_BYTES_MAX, admit),
    async (staged) => {
      await finish(core, grant, staged);
      return staged.bytes;
    },
  );
}

async function finish(core: Core, grant: PackGrant, staged: StagedPack): Promise<void> {
  const { bytes } = staged;
  if (bytes === undefined) return finishTooLarge(core, grant);
  if (!(await staged.seal())) throw alreadyFinished();
  await record(core, grant, { bytes, broken: undefined });
}

async function record(
  core: Core,
  { space, pack, generation }: PackGrant,
  received: Pick<ReceivedPack, 'bytes' | 'broken'>,
): Promise<void> {
  const isFinished = await core.metadata.transact(space, finishPack, { id: pack, generation, ...received });
  if (!isFinished) throw alreadyFinished();
}

async function finishTooLarge(core: Core, grant: PackGrant): Promise<never> {
  const message = `a pack may have at most ${PACK_BYTES_MAX} bytes; send the nodes in more packs`;
  await record(core, grant, { bytes: undefined, broken: { byte: PACK_BYTES_MAX, message } });
  throw new ApiError('PAYLOAD_TOO_LARGE', message);
}
