/** Decides one lease request inside one transaction. It does no I/O: `inspect` asks the caller to inspect and to call again. */
import { ApiError, type Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import { after } from './awaitable.ts';
import { closeContent, closeContentOf, urlExpiryOf } from './contents.ts';
import { findChildren } from './edges.ts';
import { noRoom } from './free-space.ts';
import { createGeneration } from './generation.ts';
import { isSameLease, type LeaseWindow, renewLease } from './lease-state.ts';
import type { Generation, NodeRow, UploadEvidence, UploadRow } from './model.ts';
import type { SpaceTransaction } from './ports.ts';
import {
  CONTRADICTION,
  contradicts,
  type NewContent,
  publishNode,
  restoreNode,
  settleWaiting,
} from './publication.ts';
import { judgeQuotas, type QuotaInput, type QuotaRefusal, type Stored } from './quotas.ts';
import type { UploadKind } from './upload-ports.ts';

export interface LeaseRequest {
  readonly hash: Hash;
  /** ms, clamped */
  readonly durationMs: number;
  /** only a lease of a node that is ready already is wanted: all else is refused */
  readonly renewsOnly: boolean;
}

/** What the content store said of a generation's object, asked outside any transaction. */
export interface Inspection {
  readonly generation: Generation;
  /** a PUT is under way: an object under the key belongs to it */
  readonly isReceiving: boolean;
  /** undefined: a healthy store has no object there, or a PUT is under way */
  readonly evidence: UploadEvidence | undefined;
}

export interface UploadRules {
  readonly uploads: UploadKind;
  /** active upload generations of one Space */
  readonly activeUploadsMax: number;
  /** ms an upload URL is good for */
  readonly uploadTtlMs: number;
  /** there is no room on the disk for a new one */
  readonly isDiskFull: boolean;
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
  | ({
      readonly kind: 'ready';
      readonly hash: Hash;
      readonly heals?: true;
      readonly renews?: true;
      readonly more?: Stored;
    } & LeaseWindow)
  | {
      readonly kind: 'children';
      readonly hash: Hash;
      readonly childHashes: Hash[];
      readonly more?: Stored;
    }
  /** a quota refuses the publication; the upload stays */
  | QuotaRefusal
  | { readonly kind: 'upload'; readonly row: UploadRow }
  | { readonly kind: 'inspect'; readonly generation: Generation };

type GoodEvidence = Extract<UploadEvidence, { verdict: 'good' }>;
type BadEvidence = Extract<UploadEvidence, { verdict: 'bad' }>;

interface Accepted {
  readonly upload: UploadRow;
  readonly evidence: GoodEvidence;
  /** as ContentRow's */
  readonly urlExpiresAt: number;
}

const UPLOAD_LIMIT_RETRY_AFTER_SECONDS = 5;
/** ms; a direct upload has ended this long after its URL expired. The sweep of strays finds the object of a slower one. */
const PUT_DURATION_MS_MAX = 600_000;
/** A content store that takes direct uploads counts the life of a URL in whole seconds, so rows and answers do too. */
const DIRECT_EXPIRY_STEP_MS = 1000;

/** Returns the decision itself, not a promise, for a ready row if the engine answers without one. */
export function decideLease(tx: SpaceTransaction, input: LeaseInput): Awaitable<LeaseDecision> {
  const { request } = input;
  return after(tx.findNode(request.hash), (node) =>
    node?.state === 'ready' ? renewReady(tx, node, request) : decideUnready(tx, node, input),
  );
}

/** Renews the lease of a row that is ready; undefined: it is not, or there is none. */
export function renewReadyRow(
  tx: SpaceTransaction,
  hash: Hash,
  durationMs: number,
): Awaitable<LeaseWindow | undefined> {
  return after(tx.findNode(hash), (node) =>
    node?.state === 'ready' ? moveLease(tx, node, durationMs) : undefined,
  );
}

async function decideUnready(
  tx: SpaceTransaction,
  node: NodeRow | undefined,
  input: LeaseInput,
): Promise<LeaseDecision> {
  const { request, inspection } = input;
  if (request.renewsOnly) throw changesRefused();
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
  if (node !== undefined && contradicts(node, contentOf({ upload, evidence, urlExpiresAt: 0 }))) {
    return rejectUpload(tx, upload, { verdict: 'bad', ...CONTRADICTION }, input);
  }
  const accepted: Accepted = { upload, evidence, urlExpiresAt: urlExpiryOf(input.rules.uploads, upload) };
  if (node !== undefined) return restoreContent(tx, node, accepted, input);
  return publish(tx, accepted, input);
}

function renewReady(tx: SpaceTransaction, node: NodeRow, request: LeaseRequest): Awaitable<LeaseDecision> {
  const { hash } = node;
  return after(moveLease(tx, node, request.durationMs), (lease) => {
    return { kind: 'ready', hash, renews: true, ...lease };
  });
}

/** Of a ready row. */
export function moveLease(tx: SpaceTransaction, node: NodeRow, durationMs: number): Awaitable<LeaseWindow> {
  const lease = renewLease(node, tx.now, durationMs);
  if (isSameLease(lease, node)) return lease;
  return after(tx.updateNode(node, { ...node, ...lease }), () => lease);
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
  await tx.updateUpload(upload, row);
  return { kind: 'upload', row };
}

/**
 * Opens a new generation in place of an unfinished one. Our own upload target refuses a late PUT because its record is gone. A
 * direct upload that began while its URL was valid may still be under way: its object is discarded when it has certainly ended.
 */
async function replaceUnfinished(
  tx: SpaceTransaction,
  upload: UploadRow,
  uploads: UploadKind,
): Promise<void> {
  await tx.deleteUpload(upload);
  if (uploads === 'server') return;
  const { generation, urlExpiresAt } = upload;
  await tx.setDiscard({ generation, dueAt: tx.now + PUT_DURATION_MS_MAX, urlExpiresAt });
}

async function rejectUpload(
  tx: SpaceTransaction,
  upload: UploadRow,
  evidence: BadEvidence,
  input: LeaseInput,
): Promise<LeaseDecision> {
  await tx.deleteUpload(upload);
  const judged = upload.evidence;
  // Our own upload target never keeps bad bytes, so there is nothing to discard.
  if (judged?.verdict !== 'bad') {
    const { generation } = upload;
    const urlExpiresAt = urlExpiryOf(input.rules.uploads, upload);
    await closeContent(tx, { generation, storage: judged?.inline ? 'inline' : 'object', urlExpiresAt });
  }
  return openGeneration(tx, input, { code: evidence.code, message: evidence.message });
}

export const tooManyUploads = (activeUploadsMax: number): ApiError =>
  new ApiError(
    'CAS_UPLOAD_LIMIT',
    `this Space has ${activeUploadsMax} active uploads; finish some, or wait, and repeat the same lease request`,
    { retryAfterSeconds: UPLOAD_LIMIT_RETRY_AFTER_SECONDS },
  );

/** Never before `earlier`, when an earlier URL of the same generation expires. */
export function urlExpiryFrom({ uploads, uploadTtlMs }: UploadRules, now: number, earlier = 0): number {
  const expiresAt = Math.max(earlier, now + uploadTtlMs);
  return uploads === 'server' ? expiresAt : expiresAt - (expiresAt % DIRECT_EXPIRY_STEP_MS);
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
  await tx.insertUpload(row);
  return { kind: 'upload', row };
}

/** Heals a rotten row or revives a claimed one with the bytes of the upload. */
async function restoreContent(
  tx: SpaceTransaction,
  node: NodeRow,
  accepted: Accepted,
  { request, rules, quotas }: LeaseInput,
): Promise<LeaseDecision> {
  // A claimed row's bytes count no more: to store them again is a publication. Healing is never refused.
  const more = { bytes: node.state === 'claimed' ? node.canonicalSize : 0, nodes: 0 };
  const refusal = await refuseByQuota(tx, quotas, accepted.upload, more);
  if (refusal !== undefined) return refusal;
  await closeContentOf(tx, node, rules.uploads);
  await acceptContent(tx, accepted);
  const lease = await restoreNode(tx, node, contentOf(accepted), request.durationMs);
  const ready = { kind: 'ready', hash: node.hash, ...lease, more } as const;
  return node.state === 'rotten' ? { ...ready, heals: true } : ready;
}

/** The first good upload of a hash without a row: row, edges, counts and lease in one transaction. */
async function publish(
  tx: SpaceTransaction,
  accepted: Accepted,
  { request, quotas }: LeaseInput,
): Promise<LeaseDecision> {
  const { upload, evidence } = accepted;
  const children = await findChildren(tx, [evidence.refs]);
  const more: Stored = { bytes: evidence.canonicalSize, nodes: 1 };
  const refusal = await refuseByQuota(tx, quotas, upload, more);
  if (refusal !== undefined) return refusal;
  await acceptContent(tx, accepted);
  const published = await publishNode(tx, contentOf(accepted), children, request.durationMs);
  return { ...published, more };
}

function contentOf({ upload, evidence }: Accepted): NewContent {
  const { hash, generation } = upload;
  const { size, canonicalSize, contentType, refs, inline } = evidence;
  const storage = inline ? 'inline' : 'object';
  return { hash, size, canonicalSize, contentType, refs, generation, storage, storedSize: canonicalSize };
}

/** A quota that is full keeps the upload as any lease call does: a later one publishes it once there is room. */
async function refuseByQuota(
  tx: SpaceTransaction,
  quotas: QuotaInput | undefined,
  upload: UploadRow,
  more: Stored,
): Promise<QuotaRefusal | undefined> {
  // Both are asked in one turn, in this order: nothing is locked after what is stored.
  const readStored = async (): Promise<Stored> => {
    const edges = tx.findLooseEdges([upload.hash]);
    const [stored] = await Promise.all([tx.lockStored(), edges]);
    return stored;
  };
  const refusal = await judgeQuotas(quotas, more, readStored);
  if (refusal?.kind === 'full') await tx.updateUpload(upload, { ...upload, touchedAt: tx.now });
  return refusal;
}

/** Ends a generation that is judged good: its upload row goes, its content row stays or, for a direct upload, is made. */
async function acceptContent(
  tx: SpaceTransaction,
  { upload, evidence, urlExpiresAt }: Accepted,
): Promise<void> {
  await tx.deleteUpload(upload);
  if (upload.evidence !== undefined) return;
  await tx.insertContent({
    generation: upload.generation,
    canonicalSize: evidence.canonicalSize,
    integrity: evidence.integrity,
    inlineBytes: undefined,
    urlExpiresAt,
  });
}

export const changesRefused = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'the server makes no changes at the moment; try again shortly');
