/** What one lease request does, decided inside one transaction. No I/O: `inspect` asks the caller to look and come back. */
import { ApiError, type Hash } from '@holdfast/protocol';
import { after } from './awaitable.ts';
import { closeContent, findUrlExpiries, urlExpiryOf } from './contents.ts';
import type { Core } from './core.ts';
import { addEdges, findChildren, listUnready } from './edges.ts';
import { createGeneration } from './generation.ts';
import { type LeaseWindow, renewLease } from './lease-state.ts';
import type { Generation, NodeRow, UploadEvidence, UploadRow } from './model.ts';
import type { Awaitable, SpaceTransaction } from './ports.ts';

export interface LeaseRequest {
  readonly hash: Hash;
  /** ms, clamped */
  readonly durationMs: number;
}

/** What looking at a generation's object, outside any transaction, told. */
export interface Inspection {
  readonly generation: Generation;
  /** undefined: a healthy store has no object there */
  readonly evidence: UploadEvidence | undefined;
}

export type LeaseDecision =
  /** `heals`: the row was rotten */
  | ({ readonly kind: 'ready'; readonly hash: Hash; readonly heals?: true } & LeaseWindow)
  | { readonly kind: 'children'; readonly hash: Hash; readonly childHashes: Hash[] }
  | { readonly kind: 'upload'; readonly row: UploadRow }
  | { readonly kind: 'inspect'; readonly generation: Generation };

type GoodEvidence = Extract<UploadEvidence, { verdict: 'good' }>;
type BadEvidence = Extract<UploadEvidence, { verdict: 'bad' }>;

const NEVER_LEASED: LeaseWindow = { leaseStartedAt: 0, leaseExpiresAt: 0 };
const UPLOAD_LIMIT_RETRY_AFTER_SECONDS = 5;
/** ms; a PUT to a store that takes it itself has ended so long after its URL expired; a slower one is found by the store's sweep */
const PUT_DURATION_MS_MAX = 600_000;
/** A store that takes the PUT itself judges its URLs in whole seconds: so do the rows, and what a lease says. */
const DIRECT_EXPIRY_STEP_MS = 1000;

/** At once for a ready row where the engine answers at once. */
export function decideLease(
  core: Core,
  tx: SpaceTransaction,
  request: LeaseRequest,
  inspection: Inspection | undefined,
): Awaitable<LeaseDecision> {
  return after(tx.findNode(request.hash), (node) =>
    node?.state === 'ready'
      ? renewReady(tx, node, request)
      : decideUnready(core, tx, node, request, inspection),
  );
}

async function decideUnready(
  core: Core,
  tx: SpaceTransaction,
  node: NodeRow | undefined,
  request: LeaseRequest,
  inspection: Inspection | undefined,
): Promise<LeaseDecision> {
  if (node?.state === 'waiting') return settleWaiting(tx, node, request);
  const upload = await tx.findUpload(request.hash);
  if (upload === undefined) return openGeneration(core, tx, request.hash, undefined);
  const isReceiving = isBeingReceived(core, upload);
  // An object that is seen while its PUT is under way belongs to that PUT: its own finishing transaction acknowledges it.
  const evidence = upload.evidence ?? (isReceiving ? undefined : evidenceFrom(inspection, upload));
  if (evidence === undefined) return decideUnfinished(core, tx, upload, isReceiving, inspection);
  if (evidence.verdict === 'bad') return rejectUpload(core, tx, upload, evidence);
  if (node !== undefined && contradicts(node, evidence)) {
    return rejectUpload(core, tx, upload, {
      verdict: 'bad',
      code: 'NODE_CONFLICT',
      message:
        'what is stored for this hash contradicts the uploaded bytes; tell the operator of this server',
    });
  }
  if (node !== undefined) return restoreContent(core, tx, node, upload, evidence, request);
  return publish(core, tx, upload, evidence, request);
}

function isBeingReceived(core: Core, upload: UploadRow): boolean {
  const uploads = core.content.upload;
  return uploads.kind === 'server' && uploads.receiver.isReceiving(upload.generation);
}

function evidenceFrom(inspection: Inspection | undefined, upload: UploadRow): UploadEvidence | undefined {
  return inspection?.generation === upload.generation ? inspection.evidence : undefined;
}

function renewReady(tx: SpaceTransaction, node: NodeRow, request: LeaseRequest): Awaitable<LeaseDecision> {
  const { leaseStartedAt, leaseExpiresAt } = renewLease(node, tx.now, request.durationMs);
  const decision: LeaseDecision = { kind: 'ready', hash: node.hash, leaseStartedAt, leaseExpiresAt };
  if (leaseExpiresAt === node.leaseExpiresAt && leaseStartedAt === node.leaseStartedAt) return decision;
  return after(tx.updateNode(node, { ...node, leaseStartedAt, leaseExpiresAt }), () => decision);
}

/** A waiting parent becomes ready only here: by a lease request of its own, with every child ready. */
async function settleWaiting(
  tx: SpaceTransaction,
  node: NodeRow,
  request: LeaseRequest,
): Promise<LeaseDecision> {
  const childHashes = listUnready(await findChildren(tx, [node.refs]));
  if (childHashes.length > 0) {
    await tx.updateNode(node, { ...node, waitingTouchedAt: tx.now });
    return { kind: 'children', hash: node.hash, childHashes };
  }
  const lease = renewLease(node, tx.now, request.durationMs);
  await tx.updateNode(node, { ...node, ...lease, state: 'ready', waitingTouchedAt: 0 });
  return { kind: 'ready', hash: node.hash, ...lease };
}

/** No object is known for the current generation. */
async function decideUnfinished(
  core: Core,
  tx: SpaceTransaction,
  upload: UploadRow,
  isReceiving: boolean,
  inspection: Inspection | undefined,
): Promise<LeaseDecision> {
  // A complete object counts whenever it finished, so look before the generation is called unfinished.
  if (!isReceiving && inspection?.generation !== upload.generation) {
    return { kind: 'inspect', generation: upload.generation };
  }
  if (!isReceiving && upload.urlExpiresAt <= tx.now) {
    await replaceUnfinished(core, tx, upload);
    return openGeneration(core, tx, upload.hash, upload.rejection);
  }
  const urlExpiresAt = urlExpiryFrom(core, tx.now, upload.urlExpiresAt);
  const row: UploadRow = { ...upload, touchedAt: tx.now, urlExpiresAt };
  await tx.updateUpload(upload, row);
  return { kind: 'upload', row };
}

/**
 * Our own target judges every PUT by the record, which is gone now. A store that takes PUTs itself may be in the middle of one
 * that began while the URL was good: what it makes of it goes when it has certainly ended.
 */
async function replaceUnfinished(core: Core, tx: SpaceTransaction, upload: UploadRow): Promise<void> {
  await tx.deleteUpload(upload);
  if (core.content.upload.kind === 'server') return;
  const { generation, urlExpiresAt } = upload;
  await tx.setDiscard({ generation, dueAt: tx.now + PUT_DURATION_MS_MAX, urlExpiresAt });
}

async function rejectUpload(
  core: Core,
  tx: SpaceTransaction,
  upload: UploadRow,
  evidence: BadEvidence,
): Promise<LeaseDecision> {
  await tx.deleteUpload(upload);
  const judged = upload.evidence;
  // Bytes that our own target found bad were never kept, so there is nothing to let go.
  if (judged?.verdict !== 'bad') {
    const { generation } = upload;
    const urlExpiresAt = urlExpiryOf(core, upload);
    await closeContent(tx, { generation, inline: judged?.inline ?? false, urlExpiresAt });
  }
  return openGeneration(core, tx, upload.hash, { code: evidence.code, message: evidence.message });
}

/** No sooner than `earlier` URLs of the same generation end. */
function urlExpiryFrom({ content, settings }: Core, now: number, earlier = 0): number {
  const expiresAt = Math.max(earlier, now + settings.uploadTtlMs);
  return content.upload.kind === 'server' ? expiresAt : expiresAt - (expiresAt % DIRECT_EXPIRY_STEP_MS);
}

async function openGeneration(
  core: Core,
  tx: SpaceTransaction,
  hash: Hash,
  rejection: UploadRow['rejection'],
): Promise<LeaseDecision> {
  const { activeUploadsMax } = core.settings;
  if ((await tx.countActiveUploads(activeUploadsMax)) >= activeUploadsMax) {
    throw new ApiError(
      'CAS_UPLOAD_LIMIT',
      `this Space has ${activeUploadsMax} active uploads; finish some, or wait, and repeat the same lease request`,
      { retryAfterSeconds: UPLOAD_LIMIT_RETRY_AFTER_SECONDS },
    );
  }
  const row: UploadRow = {
    hash,
    generation: createGeneration(core, tx.now),
    createdAt: tx.now,
    urlExpiresAt: urlExpiryFrom(core, tx.now),
    touchedAt: tx.now,
    rejection,
    evidence: undefined,
  };
  await tx.insertUpload(row);
  return { kind: 'upload', row };
}

/** SHA-256 makes this impossible unless a stored row went bad. */
function contradicts(node: NodeRow, evidence: GoodEvidence): boolean {
  return (
    node.size !== evidence.size ||
    node.canonicalSize !== evidence.canonicalSize ||
    node.contentType !== evidence.contentType ||
    Buffer.compare(node.refs, evidence.refs) !== 0
  );
}

/** Heals a rotten row or revives a claimed one: its edges, counts and root refs still stand, only the bytes are new. */
async function restoreContent(
  core: Core,
  tx: SpaceTransaction,
  node: NodeRow,
  upload: UploadRow,
  evidence: GoodEvidence,
  request: LeaseRequest,
): Promise<LeaseDecision> {
  const [urlExpiresAt = 0] = await findUrlExpiries(core, tx, [node]);
  await closeContent(tx, { generation: node.generation, inline: node.inline, urlExpiresAt });
  await acceptContent(core, tx, upload, evidence);
  const lease = renewLease(node, tx.now, request.durationMs);
  await tx.updateNode(node, {
    ...node,
    ...lease,
    state: 'ready',
    generation: upload.generation,
    inline: evidence.inline,
    claimHeldUntil: 0,
  });
  const ready = { kind: 'ready', hash: node.hash, ...lease } as const;
  return node.state === 'rotten' ? { ...ready, heals: true } : ready;
}

/** The first good upload of a hash without a row: row, edges, counts and lease in one transaction. */
async function publish(
  core: Core,
  tx: SpaceTransaction,
  upload: UploadRow,
  evidence: GoodEvidence,
  request: LeaseRequest,
): Promise<LeaseDecision> {
  const { hash } = upload;
  await acceptContent(core, tx, upload, evidence);
  const children = await findChildren(tx, [evidence.refs]);
  const childHashes = listUnready(children);
  const isReady = childHashes.length === 0;
  const lease = isReady ? renewLease(NEVER_LEASED, tx.now, request.durationMs) : NEVER_LEASED;
  await tx.insertNode({
    hash,
    state: isReady ? 'ready' : 'waiting',
    size: evidence.size,
    canonicalSize: evidence.canonicalSize,
    contentType: evidence.contentType,
    refs: evidence.refs,
    generation: upload.generation,
    inline: evidence.inline,
    ...lease,
    childRefCount: await addEdges(tx, hash, children),
    rootRefCount: 0,
    heldDomainCount: 0,
    waitingTouchedAt: isReady ? 0 : tx.now,
    claimHeldUntil: 0,
  });
  return isReady ? { kind: 'ready', hash, ...lease } : { kind: 'children', hash, childHashes };
}

/** The generation is judged good: its upload record goes, its content record stays (or is made, for a direct upload). */
async function acceptContent(
  core: Core,
  tx: SpaceTransaction,
  upload: UploadRow,
  evidence: GoodEvidence,
): Promise<void> {
  await tx.deleteUpload(upload);
  if (upload.evidence !== undefined) return;
  await tx.insertContent({
    generation: upload.generation,
    canonicalSize: evidence.canonicalSize,
    integrity: evidence.integrity,
    inlineBytes: undefined,
    urlExpiresAt: urlExpiryOf(core, upload),
  });
}
