/**
 * The embedded upload target: one PUT to a generation's write-once key (docs/api.md, The upload target).
 *
 * Order, each step durable before the next: bytes staged and fsynced → sealed under the generation's key → the finishing
 * transaction (evidence and content row, only if the generation is still current and unfinished) → the answer. A crash
 * before the transaction leaves an unfinished generation: no client was told anything else.
 */
import { ApiError, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { checkRoom } from './free-space.ts';
import type { UploadEvidence } from './model.ts';
import type { SpaceTransaction, StagedUpload, UploadBody, UploadReceiver } from './ports.ts';
import { findExcess, QuotaExceeded, type SpaceQuotas, type Stored, storedOf } from './quotas.ts';
import { parseUploadToken, type UploadGrant } from './upload-token.ts';

export interface UploadRequest {
  /** the part of the path after /uploads/ */
  readonly token: string;
  readonly contentType: string | undefined;
  readonly ifNoneMatch: string | undefined;
  /** bytes, from Content-Length */
  readonly declaredLength: number | undefined;
  readonly body: UploadBody | null;
  /** Called once the token has proved to be ours. */
  readonly onGrant?: (grant: UploadGrant) => void;
  /** Called before anything is read for an upload that may be received: what it throws refuses the upload. */
  readonly admit?: (grant: UploadGrant) => Promise<void>;
}

/** Resolves when the upload is durable. Throws FORBIDDEN (403), CONFLICT (412), PAYLOAD_TOO_LARGE (413). */
export async function receiveUpload(core: Core, request: UploadRequest): Promise<void> {
  const receiver = getReceiver(core);
  const grant = parseUploadToken(core.signer, request.token);
  request.onGrant?.(grant);
  // A clock that is no promise is not awaited: that would cost a turn of the event loop.
  const now = core.metadata.readClock();
  if (grant.expiresAt <= (typeof now === 'number' ? now : await now)) {
    throw new ApiError('FORBIDDEN', 'this upload URL has expired; repeat the lease request for a new one');
  }
  checkHeaders(request);
  checkRoom(core.freeSpace, request.declaredLength ?? 0);
  if (request.admit !== undefined) await request.admit(grant);
  if (!isRowAtMost(core, request)) {
    const upload = await core.metadata.findUpload(grant.space, grant.hash);
    if (upload?.generation !== grant.generation || upload.evidence !== undefined) throw alreadyFinished();
  }
  if (request.declaredLength !== undefined && request.declaredLength > core.settings.nodeBytesMax) {
    await finishTooLarge(core, grant);
  }
  const quotas = request.declaredLength === undefined ? undefined : core.quotas.find(grant.space);
  if (quotas !== undefined) await checkQuotas(core, grant, quotas, request.declaredLength as number);
  const body = request.body ?? new Uint8Array(0);
  const staged = await receiver.receive(grant, body, request.declaredLength, core.settings);
  try {
    await finish(core, grant, staged);
  } finally {
    await staged.release();
  }
}

/**
 * Refuses bytes that no lease could publish, so that they are not sent in vain. The next lease judges for certain. Bytes that heal
 * a node are let through.
 */
async function checkQuotas(
  core: Core,
  { space, hash, generation }: UploadGrant,
  quotas: SpaceQuotas,
  declaredLength: number,
): Promise<void> {
  const more: Stored = { bytes: declaredLength, nodes: 0 };
  let excess =
    quotas.space?.maxBytes === undefined
      ? undefined
      : findExcess('Space', quotas.space, storedOf(await core.metadata.readCounters(space)), more);
  if (quotas.isAppLimited) excess ??= await core.quotas.findAppExcess(space, more);
  if (excess === undefined) return;
  const upload = await core.metadata.findUpload(space, hash);
  if (upload?.generation !== generation || upload.evidence !== undefined) throw alreadyFinished();
  const node = await core.metadata.findNode(space, hash);
  if (node?.state !== 'rotten') throw new QuotaExceeded(excess);
}

/** Whether the bytes can only become a row: then the finishing transaction checks the generation, and no earlier read does. */
function isRowAtMost({ metadata, settings }: Core, { body, declaredLength }: UploadRequest): boolean {
  const bytesMax = Math.min(metadata.inlineBytesMax, settings.nodeBytesMax);
  return typeof body === 'function' && declaredLength !== undefined && declaredLength <= bytesMax;
}

function getReceiver(core: Core): UploadReceiver {
  if (core.content.upload.kind === 'server') return core.content.upload.receiver;
  throw new ApiError(
    'NOT_FOUND',
    'this server takes no uploads itself; use the upload URL of the lease answer',
  );
}

function checkHeaders(request: UploadRequest): void {
  if (request.ifNoneMatch === '*' && request.contentType === NODE_MEDIA_TYPE) return;
  throw new ApiError(
    'FORBIDDEN',
    `send the upload headers exactly as the lease returned them: content-type ${NODE_MEDIA_TYPE}, if-none-match *`,
  );
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

/** Resolves false when the generation is no longer current or already finished. */
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
    await tx.insertContent({ generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 });
  }
  await tx.updateUpload(upload, { ...upload, evidence });
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
  if (content === undefined || isClaimed) await tx.setDiscard({ generation, dueAt: tx.now, urlExpiresAt: 0 });
}

async function finishTooLarge(core: Core, grant: UploadGrant): Promise<never> {
  const message = `a canonical node may have at most ${core.settings.nodeBytesMax} bytes; split the content into child nodes`;
  const evidence: UploadEvidence = { verdict: 'bad', code: 'NODE_TOO_LARGE', message };
  await record(core, grant, { evidence, inlineBytes: undefined, isSealed: false });
  throw new ApiError('PAYLOAD_TOO_LARGE', message);
}

const alreadyFinished = (): ApiError =>
  new ApiError('CONFLICT', 'this upload is already finished; repeat the lease request', { status: 412 });
