/** Decides one lease request inside one transaction. It does no I/O: `inspect` asks the caller to inspect and to call again. */

import { ApiError, type Hash } from '@holdfast/protocol';
import { type Awaitable, after } from '../awaitable.ts';
import { closeContent, closeContentOf, type ReplacementRules, urlExpiryOf } from '../contents.ts';
import { findChildren } from '../edges.ts';
import { createGeneration } from '../generation.ts';
import type { Generation, NodeRow, UploadEvidence, UploadRow } from '../model.ts';
import { isLeaseSame, type LeaseWindow, renewLease } from '../node-row.ts';
import type { SpaceTransaction } from '../ports.ts';
import { judgeQuotas, noRoom, type QuotaInput, type QuotaRefusal, type Stored } from '../quotas.ts';
import { type FoundNode, findNodeOrDamage } from '../read/find-nodes.ts';
import { PUT_DURATION_MS_MAX, type UploadKind } from '../upload-ports.ts';
import { closeFormer, mendNode, settleMended } from './mend-node.ts';
import {
  CONTRADICTION,
  contradicts,
  type NewContent,
  type Publication,
  publishNode,
  restoreNode,
  settleWaiting,
} from './publication.ts';
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
  | ({ readonly kind: 'inspect' } & Pick<UploadRow, 'generation' | 'seenBytes'>);

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
    const { generation, seenBytes } = upload;
    if (!isInspected) return { kind: 'inspect', generation, seenBytes };
    return decideUnfinished(tx, upload, input, inspection.isReceiving);
  }
  if (evidence.verdict === 'bad') return rejectUpload(tx, upload, evidence, input);
  const good = { upload, evidence };
  if (found === 'damaged') return healRow(tx, good, input);
  if (node !== undefined && contradicts(node, contentOf(good))) {
    return rejectUpload(tx, upload, { verdict: 'bad', ...CONTRADICTION }, input);
  }
  const { quotas } = input;
  return acceptUpload(tx, node, good, { durationMs: request.durationMs, ...input.rules, quotas });
}

/** The bytes of the upload prove the row. If the row is unchanged, it continues like any other. */
async function healRow(tx: SpaceTransaction, good: GoodUpload, input: LeaseInput): Promise<LeaseDecision> {
  const mended = await mendNode(tx, contentOf(good));
  if (mended === undefined || mended.isExact) return decideLease(tx, input);
  const { generation } = good.upload;
  await closeFormer(tx, mended.former, { ...good.evidence, generation }, input.rules);
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
  if (isLeaseSame(lease, node)) return lease;
  return after(tx.update('node', node, { ...node, ...lease }), () => lease);
}

/** The error for a lease other than a renewal while the server makes no changes. */
export const changesRefused = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'the server makes no changes at the moment; try again shortly');

/** How an upload with good bytes changes the rows of its hash: it publishes, heals or revives the node. */
interface GoodUpload {
  readonly upload: UploadRow;
  readonly evidence: Extract<UploadEvidence, { verdict: 'good' }>;
}

interface AcceptInput extends ReplacementRules {
  /** ms, clamped; of the lease */
  readonly durationMs: number;
  readonly quotas: QuotaInput | undefined;
}

/** `heals`: the row was rotten; `more`: what is stored now and was not before. After a refusal by a full quota the upload is gone. */
type Acceptance = (Publication & { readonly heals?: true; readonly more: Stored }) | QuotaRefusal;

/** `node`: the row of the hash, which is rotten or claimed; undefined: there is none. */
function acceptUpload(
  tx: SpaceTransaction,
  node: NodeRow | undefined,
  good: GoodUpload,
  input: AcceptInput,
): Promise<Acceptance> {
  return node === undefined ? publish(tx, good, input) : restoreContent(tx, node, good, input);
}

function contentOf({ upload, evidence }: GoodUpload): NewContent {
  const { hash, generation } = upload;
  const { size, canonicalSize, contentType, refs, inline } = evidence;
  const storage = inline ? 'inline' : 'object';
  return { hash, size, canonicalSize, contentType, refs, generation, storage, storedSize: canonicalSize };
}

/** Heals a rotten row or revives a claimed one with the bytes of the upload. */
async function restoreContent(
  tx: SpaceTransaction,
  node: NodeRow,
  good: GoodUpload,
  input: AcceptInput,
): Promise<Acceptance> {
  const { durationMs, uploads, quotas } = input;
  // A claimed row's bytes count no more: to store them again is a publication. Healing is never refused.
  const more = { bytes: node.state === 'claimed' ? node.canonicalSize : 0, nodes: 0 };
  const refusal = await refuseByQuota(tx, { quotas, uploads }, good, more);
  if (refusal !== undefined) return refusal;
  await closeContentOf(tx, node, input);
  await acceptContent(tx, good, uploads);
  const lease = await restoreNode(tx, node, contentOf(good), durationMs);
  const ready = { kind: 'ready', hash: node.hash, ...lease, more } as const;
  return node.state === 'rotten' ? { ...ready, heals: true } : ready;
}

/** The first good upload of a hash without a row: row, edges, counts and lease in one transaction. */
async function publish(
  tx: SpaceTransaction,
  good: GoodUpload,
  { durationMs, uploads, quotas }: AcceptInput,
): Promise<Acceptance> {
  const { evidence } = good;
  const children = await findChildren(tx, [evidence.refs]);
  const more: Stored = { bytes: evidence.canonicalSize, nodes: 1 };
  const refusal = await refuseByQuota(tx, { quotas, uploads }, good, more);
  if (refusal !== undefined) return refusal;
  await acceptContent(tx, good, uploads);
  const published = await publishNode(tx, contentOf(good), children, durationMs);
  return { ...published, more };
}

/** A refused upload does not stay: it is closed with its bytes, and the next lease opens a new one. */
async function refuseByQuota(
  tx: SpaceTransaction,
  { quotas, uploads }: Pick<AcceptInput, 'quotas' | 'uploads'>,
  { upload, evidence }: GoodUpload,
  more: Stored,
): Promise<QuotaRefusal | undefined> {
  // Both are asked in one turn, in this order: nothing is locked after what is stored.
  const readStored = async (): Promise<Stored> => {
    const edges = tx.findLooseEdges([upload.hash]);
    const [stored] = await Promise.all([tx.lockStored(), edges]);
    return stored;
  };
  const refusal = await judgeQuotas(quotas, more, readStored);
  if (refusal?.kind === 'full') {
    const { generation } = upload;
    const storage = evidence.inline ? 'inline' : 'object';
    await tx.delete('upload', upload);
    await closeContent(tx, { generation, storage, urlExpiresAt: urlExpiryOf(uploads, upload) });
  }
  return refusal;
}

/** Ends a generation that is judged good: its upload row goes, its content row stays or, for a direct upload, is made. */
async function acceptContent(
  tx: SpaceTransaction,
  { upload, evidence }: GoodUpload,
  uploads: UploadKind,
): Promise<void> {
  await tx.delete('upload', upload);
  if (upload.evidence !== undefined) return;
  await tx.insert('content', {
    generation: upload.generation,
    canonicalSize: evidence.canonicalSize,
    integrity: evidence.integrity,
    inlineBytes: undefined,
    urlExpiresAt: urlExpiryOf(uploads, upload),
  });
}
