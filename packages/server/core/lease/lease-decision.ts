/** Decides one lease request inside one transaction. It does no I/O: `inspect` asks the caller to inspect and to call again. */
import { ApiError, type Hash } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { after } from '../awaitable.ts';
import { closeContent, urlExpiryOf } from '../contents.ts';
import { noRoom } from '../free-space.ts';
import { createGeneration } from '../generation.ts';
import { isSameLease, type LeaseWindow, renewLease } from '../lease-state.ts';
import type { Generation, NodeRow, UploadEvidence, UploadRow } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import type { QuotaInput, QuotaRefusal, Stored } from '../quotas.ts';
import { type FoundNode, findNodeOrDamage } from '../read/find-nodes.ts';
import { PUT_DURATION_MS_MAX, type UploadKind } from '../upload-ports.ts';
import { acceptContent, acceptUpload, contentOf, type GoodUpload } from './accept-upload.ts';
import { closeFormer, mendNode, settleMended } from './mend-node.ts';
import { CONTRADICTION, contradicts, type Publication, settleWaiting } from './publication.ts';
import { tooManyUploads, type UploadRules, urlExpiryFrom } from './upload-rules.ts';

export interface LeaseRequest {
  readonly hash: Hash;
  /** ms, clamped */
  readonly durationMs: number;
  /** only a lease of a node that is ready already is wanted: all else is refused */
  readonly renewsOnly: boolean;
}

/** The content store's result for a generation's object, read outside any transaction. */
export interface Inspection {
  readonly generation: Generation;
  /** a PUT is under way: an object under the key belongs to it */
  readonly isReceiving: boolean;
  /** undefined: a healthy store has no object there, or a PUT is under way */
  readonly evidence: UploadEvidence | undefined;
}

interface LeaseInput {
  readonly request: LeaseRequest;
  /** made because the previous decision asked for it */
  readonly inspection: Inspection | undefined;
  /** random digits for a new generation, if one is made */
  readonly fresh: string;
  readonly rules: UploadRules;
  readonly quotas: QuotaInput | undefined;
}

export type LeaseDecision =
  /** `heals`: the row was rotten; `renews`: it was ready, so nothing but its lease changed; `more`: stored by this lease */
  | (Publication & { readonly heals?: true; readonly renews?: true; readonly more?: Stored })
  /** a quota refuses the publication; one that is full has closed the upload */
  | QuotaRefusal
  | { readonly kind: 'upload'; readonly row: UploadRow }
  | { readonly kind: 'inspect'; readonly generation: Generation };

type BadEvidence = Extract<UploadEvidence, { verdict: 'bad' }>;

/** Returns the decision itself, not a promise, for a ready row if the engine answers without one. */
export function decideLease(tx: SpaceTransaction, input: LeaseInput): Awaitable<LeaseDecision> {
  const { request } = input;
  return after(findNodeOrDamage(tx, request.hash), (node) =>
    typeof node === 'object' && node.state === 'ready'
      ? renewReady(tx, node, request)
      : decideUnready(tx, node, input),
  );
}

async function decideUnready(
  tx: SpaceTransaction,
  found: FoundNode,
  input: LeaseInput,
): Promise<LeaseDecision> {
  const { request, inspection } = input;
  if (request.renewsOnly) throw changesRefused();
  const node = found === 'damaged' ? undefined : found;
  if (node?.state === 'waiting') return settleWaiting(tx, node, request.durationMs);
  const upload = await tx.findUpload(request.hash);
  if (upload === undefined) return openGeneration(tx, input, undefined);
  const isInspected = inspection?.generation === upload.generation;
  const evidence = upload.evidence ?? (isInspected ? inspection.evidence : undefined);
  if (evidence === undefined) {
    // An object counts even if its PUT ended after the URL expired, so inspect before the generation is judged unfinished.
    if (!isInspected) return { kind: 'inspect', generation: upload.generation };
    return decideUnfinished(tx, upload, input, inspection.isReceiving);
  }
  if (evidence.verdict === 'bad') return rejectUpload(tx, upload, evidence, input);
  const good = { upload, evidence };
  if (found === 'damaged') return healRow(tx, good, input);
  if (node !== undefined && contradicts(node, contentOf(good))) {
    return rejectUpload(tx, upload, { verdict: 'bad', ...CONTRADICTION }, input);
  }
  const { quotas } = input;
  const { uploads, keepReplacedMs } = input.rules;
  return acceptUpload(tx, node, good, { durationMs: request.durationMs, uploads, keepReplacedMs, quotas });
}

/** The bytes of the upload prove the row. If the row is unchanged, it continues like any other. */
async function healRow(tx: SpaceTransaction, good: GoodUpload, input: LeaseInput): Promise<LeaseDecision> {
  const mended = await mendNode(tx, contentOf(good));
  if (mended === undefined || mended.isExact) return decideLease(tx, input);
  const { generation } = good.upload;
  await closeFormer(tx, mended.former, { ...good.evidence, generation }, input.rules.keepReplacedMs);
  await acceptContent(tx, good, input.rules.uploads);
  return { ...(await settleMended(tx, mended.row, input.request.durationMs)), heals: true };
}

function renewReady(tx: SpaceTransaction, node: NodeRow, request: LeaseRequest): Awaitable<LeaseDecision> {
  const { hash } = node;
  return after(moveLease(tx, node, request.durationMs), (lease) => {
    return { kind: 'ready', hash, renews: true, ...lease };
  });
}

/** No object is known for the current generation. */
async function decideUnfinished(
  tx: SpaceTransaction,
  upload: UploadRow,
  input: LeaseInput,
  isReceiving: boolean,
): Promise<LeaseDecision> {
  if (!isReceiving && upload.urlExpiresAt <= tx.now) {
    await replaceUnfinished(tx, upload, input.rules.uploads);
    return openGeneration(tx, input, upload.rejection);
  }
  const urlExpiresAt = urlExpiryFrom(input.rules, tx.now, upload.urlExpiresAt);
  const row: UploadRow = { ...upload, touchedAt: tx.now, urlExpiresAt };
  await tx.update('upload', upload, row);
  return { kind: 'upload', row };
}

/** Opens a new generation in place of an unfinished one. A direct upload may be under way: its object is discarded when it has ended. */
async function replaceUnfinished(
  tx: SpaceTransaction,
  upload: UploadRow,
  uploads: UploadKind,
): Promise<void> {
  await tx.delete('upload', upload);
  if (uploads === 'server') return;
  const { generation, urlExpiresAt } = upload;
  await tx.insert('discard', { generation, dueAt: tx.now + PUT_DURATION_MS_MAX, urlExpiresAt });
}

async function rejectUpload(
  tx: SpaceTransaction,
  upload: UploadRow,
  evidence: BadEvidence,
  input: LeaseInput,
): Promise<LeaseDecision> {
  await tx.delete('upload', upload);
  const judged = upload.evidence;
  // Our own upload target never keeps bad bytes, so there is nothing to discard.
  if (judged?.verdict !== 'bad') {
    const { generation } = upload;
    const urlExpiresAt = urlExpiryOf(input.rules.uploads, upload);
    await closeContent(tx, { generation, storage: judged?.inline ? 'inline' : 'object', urlExpiresAt });
  }
  return openGeneration(tx, input, { code: evidence.code, message: evidence.message });
}

async function openGeneration(
  tx: SpaceTransaction,
  { request, fresh, rules }: LeaseInput,
  rejection: UploadRow['rejection'],
): Promise<LeaseDecision> {
  const { activeUploadsMax } = rules;
  if (rules.isDiskFull) throw noRoom();
  if ((await tx.countActiveUploads(activeUploadsMax)) >= activeUploadsMax) {
    throw tooManyUploads(activeUploadsMax);
  }
  const row: UploadRow = {
    hash: request.hash,
    generation: createGeneration(tx.now, fresh),
    createdAt: tx.now,
    urlExpiresAt: urlExpiryFrom(rules, tx.now),
    touchedAt: tx.now,
    rejection,
    evidence: undefined,
  };
  await tx.insert('upload', row);
  return { kind: 'upload', row };
}

/** Renews the lease of a ready row. Returns undefined if there is no row or it is not ready. */
export function renewReadyRow(
  tx: SpaceTransaction,
  hash: Hash,
  durationMs: number,
): Awaitable<LeaseWindow | undefined> {
  return after(tx.findNode(hash), (node) =>
    node?.state === 'ready' ? moveLease(tx, node, durationMs) : undefined,
  );
}

/** Renews the lease of `node`, which is ready; writes nothing if the lease stays the same. `durationMs`: ms, clamped. */
export function moveLease(tx: SpaceTransaction, node: NodeRow, durationMs: number): Awaitable<LeaseWindow> {
  const lease = renewLease(node, tx.now, durationMs);
  if (isSameLease(lease, node)) return lease;
  return after(tx.update('node', node, { ...node, ...lease }), () => lease);
}

/** The error for a lease other than a renewal while the server makes no changes. */
export const changesRefused = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'the server makes no changes at the moment; try again shortly');
