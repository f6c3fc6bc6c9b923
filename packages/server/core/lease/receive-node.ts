/**
 * The embedded upload target: one PUT to a generation's write-once key (docs/api.md, The upload target).
 *
 * Order, each step durable before the next: bytes staged and fsynced → sealed under the generation's key → the finishing
 * transaction (evidence and content row, only if the generation is still current and unfinished) → the answer. A crash
 * before the transaction leaves an unfinished generation: no client was told anything else.
 */
import { ApiError, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { UploadEvidence } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import type { StagedUpload } from '../upload-ports.ts';
import { ReceiptRoom } from './receipt-room.ts';
import { admitUpload, alreadyFinished, type UploadRequest } from './upload-rules.ts';
import type { UploadGrant } from './upload-token.ts';

/** Resolves when the upload is durable. Throws FORBIDDEN (403), CONFLICT (412), PAYLOAD_TOO_LARGE (413). */
export async function receiveNode(core: Core, request: UploadRequest, grant: UploadGrant): Promise<void> {
  const admitted = admitUpload(core, request, grant, NODE_MEDIA_TYPE);
  const receiver = admitted instanceof Promise ? await admitted : admitted;
  if (!isRowAtMost(core, request)) {
    const upload = await core.metadata.findUpload(grant.space, grant.hash);
    if (upload?.generation !== grant.generation || upload.evidence !== undefined) throw alreadyFinished();
  }
  if (request.declaredLength !== undefined && request.declaredLength > core.settings.nodeBytesMax) {
    await finishTooLarge(core, grant);
  }
  const room = new ReceiptRoom(core, grant.space, {
    bytes: request.declaredLength ?? core.settings.nodeBytesMax,
    mayHeal: () => mayHeal(core, grant),
  });
  const { declaredLength } = request;
  const body = request.body ?? new Uint8Array(0);
  await room.receive(
    (admit) => receiver.receive(grant, body, declaredLength, core.settings, admit),
    async (staged) => {
      await finish(core, grant, staged);
      return staged.evidence.verdict === 'good' ? staged.evidence.canonicalSize : undefined;
    },
  );
}

/** Whether the bytes are for a rotten node. A finished upload says so, whatever the quota. */
async function mayHeal({ metadata }: Core, { space, hash, generation }: UploadGrant): Promise<boolean> {
  const upload = await metadata.findUpload(space, hash);
  if (upload?.generation !== generation || upload.evidence !== undefined) throw alreadyFinished();
  return (await metadata.findNode(space, hash))?.state === 'rotten';
}

/** Whether the bytes can only become a row: then the finishing transaction checks the generation, and no earlier read does. */
function isRowAtMost({ metadata, settings }: Core, { body, declaredLength }: UploadRequest): boolean {
  const bytesMax = Math.min(metadata.inlineBytesMax, settings.nodeBytesMax);
  return typeof body === 'function' && declaredLength !== undefined && declaredLength <= bytesMax;
}

async function finish(core: Core, grant: UploadGrant, staged: StagedUpload): Promise<void> {
  const { evidence, inlineBytes } = staged;
  if (evidence.verdict === 'bad' && evidence.code === 'NODE_TOO_LARGE') await finishTooLarge(core, grant);
  // Bad bytes are not kept: the next lease needs only the verdict.
  const isObject = evidence.verdict === 'good' && inlineBytes === undefined;
  if (isObject && !(await staged.seal())) throw alreadyFinished();
  await record(core, grant, { evidence, inlineBytes, isSealed: isObject });
}

async function record(core: Core, grant: UploadGrant, received: ReceivedBytes): Promise<void> {
  const { space, hash, generation } = grant;
  const isFinished = await core.metadata.transact(space, finishUpload, { hash, generation, ...received });
  if (!isFinished) throw alreadyFinished();
}

interface ReceivedBytes {
  readonly evidence: UploadEvidence;
  readonly inlineBytes: Uint8Array | undefined;
  /** the bytes are an object under the generation's key */
  readonly isSealed: boolean;
}

type FinishedUpload = ReceivedBytes & Pick<UploadGrant, 'hash' | 'generation'>;

/** Resolves with false if the generation is no longer current or already finished. */
export async function finishUpload(tx: SpaceTransaction, finished: FinishedUpload): Promise<boolean> {
  if (await recordEvidence(tx, finished)) return true;
  if (finished.isSealed) await discardStray(tx, finished);
  return false;
}

async function recordEvidence(
  tx: SpaceTransaction,
  { hash, generation, evidence, inlineBytes }: FinishedUpload,
): Promise<boolean> {
  const upload = await tx.findUpload(hash);
  if (upload?.generation !== generation || upload.evidence !== undefined) return false;
  if (evidence.verdict === 'good') {
    const { canonicalSize, integrity } = evidence;
    await tx.insert('content', { generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 });
  }
  await tx.update('upload', upload, { ...upload, evidence });
  return true;
}

/**
 * Called when the object was sealed under a generation that has since been closed or finished. If the generation has a content
 * row, the object belongs to that row and stays; else it is recorded for deletion. The content row of a claimed node is about to
 * go, and the pass may have deleted the object before ours took its place: then ours is recorded for deletion too.
 */
async function discardStray(tx: SpaceTransaction, { generation, hash }: FinishedUpload): Promise<void> {
  const content = await tx.findContent(generation);
  const node = await tx.findNode(hash);
  const isClaimed = node?.state === 'claimed' && node.generation === generation;
  if (content === undefined || isClaimed)
    await tx.insert('discard', { generation, dueAt: tx.now, urlExpiresAt: 0 });
}

async function finishTooLarge(core: Core, grant: UploadGrant): Promise<never> {
  const message = `a canonical node may have at most ${core.settings.nodeBytesMax} bytes; split the content into child nodes`;
  const evidence: UploadEvidence = { verdict: 'bad', code: 'NODE_TOO_LARGE', message };
  await record(core, grant, { evidence, inlineBytes: undefined, isSealed: false });
  throw new ApiError('PAYLOAD_TOO_LARGE', message);
}
