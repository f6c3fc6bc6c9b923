/** leaseNode: the lease and upload machine (docs/api.md, leaseNode). */
import { ApiError, type Hash, type LeaseResponse, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { aroundRecords } from '../contents.ts';
import type { Core } from '../core.ts';
import { makeGenerationDigits } from '../generation.ts';
import type { Space, UploadRow } from '../model.ts';
import { clampLeaseDuration, type LeaseWindow } from '../node-row.ts';
import { QuotaRoom } from '../quota-room.ts';
import { RowDamaged } from '../store-failure.ts';
import { decideLease, type Inspection, type LeaseDecision, type LeaseRequest } from './lease-decision.ts';
import { refuse } from './receipt-room.ts';
import { countUnseen } from './unseen-uploads.ts';
import { uploadRulesOf } from './upload-rules.ts';
import { signUploadToken, type UploadHolder } from './upload-token.ts';

export interface LeaseOptions {
  /** Called if the node was ready already: nothing but its lease changed. */
  readonly onRenewal?: () => void;
  /** refuse what would be more than a renewal */
  readonly renewsOnly?: boolean;
  /** to whom an upload URL is given */
  readonly holder?: UploadHolder;
}

/** `uploadOrigin`: scheme and authority of our own upload URLs, no trailing slash; asked only if needed. Throws or rejects. */
export function leaseNode(
  core: Core,
  space: Space,
  hash: Hash,
  leaseDurationMs: number,
  uploadOrigin: () => string,
  options: LeaseOptions = {},
): Promise<LeaseResponse> {
  const durationMs = clampLeaseDuration(leaseDurationMs);
  const request: LeaseRequest = { hash, durationMs, renewsOnly: options.renewsOnly ?? false };
  const urls: UploadUrls = { uploadOrigin, holder: options.holder };
  const anew = () => leaseAnew(core, space, request, urls, options.onRenewal);
  const renewed = renewOrDamage(core, space, hash, durationMs);
  if (renewed === undefined) return anew();
  return Promise.resolve(renewed).then((lease) => {
    if (lease === undefined) return anew();
    options.onRenewal?.();
    const { leaseStartedAt, leaseExpiresAt } = lease;
    return { state: 'ready', hash, leaseStartedAt, leaseExpiresAt };
  });
}

/** undefined: it is not ready, or its row is damaged, and bytes are asked for */
function renewOrDamage(
  { metadata }: Core,
  space: Space,
  hash: Hash,
  durationMs: number,
): Awaitable<LeaseWindow | undefined> {
  const leave = (error: unknown): undefined => {
    if (!(error instanceof RowDamaged)) throw error;
  };
  try {
    const renewed = metadata.renewReadyLease?.(space, hash, durationMs);
    return renewed instanceof Promise ? renewed.catch(leave) : renewed;
  } catch (error) {
    return leave(error);
  }
}

/** The parts of the URLs of our own target. */
interface UploadUrls {
  readonly uploadOrigin: () => string;
  readonly holder: UploadHolder | undefined;
}

/** For a node that the engine cannot renew in one step. */
async function leaseAnew(
  core: Core,
  space: Space,
  request: LeaseRequest,
  urls: UploadUrls,
  onRenewal: (() => void) | undefined,
): Promise<LeaseResponse> {
  const room = new QuotaRoom(core, space);
  try {
    const decision = await decide(core, space, request, room);
    if (decision.kind === 'ready' && decision.renews) onRenewal?.();
    room.settle('more' in decision);
    return await answer(core, space, decision, urls);
  } finally {
    room.settle(false);
  }
}

async function decide(
  core: Core,
  space: Space,
  request: LeaseRequest,
  room: QuotaRoom,
): Promise<FinalDecision> {
  const rules = uploadRulesOf(core);
  let inspection = request.renewsOnly ? undefined : await inspectExpected(core, space, request.hash, room);
  // A further round is needed only if another request replaced the generation that was just inspected.
  for (let inspections = 0; inspections < 4; ) {
    const fresh = makeGenerationDigits(core.random);
    const input = { request, inspection, fresh, quotas: room.input };
    const decision = await aroundRecords(core, space, [request], (left) =>
      core.metadata.transact(space, decideLease, { ...input, rules: { ...rules, left } }),
    );
    if (decision.kind === 'full') throw await refuse(core, space, decision.excess);
    if (decision.kind === 'reserve') await room.reserve(decision.more);
    else if (decision.kind !== 'inspect') return decision;
    else {
      inspections += 1;
      inspection = await inspect(core, space, request.hash, decision, room);
    }
  }
  throw new ApiError(
    'SERVICE_UNAVAILABLE',
    'the uploads of this node keep changing; repeat the same lease request',
    { retryAfterSeconds: 1 },
  );
}

type FinalDecision = Exclude<LeaseDecision, { kind: 'inspect' | 'full' | 'reserve' }>;

/** Spares the transaction that would only say which object to look at. */
async function inspectExpected(
  core: Core,
  space: Space,
  hash: Hash,
  room: QuotaRoom,
): Promise<Inspection | undefined> {
  const upload = await core.metadata.findExpectedUpload?.(space, hash);
  return upload === undefined || upload.evidence !== undefined
    ? undefined
    : inspect(core, space, hash, upload, room);
}

/** Reports no object while a PUT is under way: the finishing transaction of that PUT acknowledges it. */
async function inspect(
  core: Core,
  space: Space,
  hash: Hash,
  { generation, seenBytes }: Pick<UploadRow, 'generation' | 'seenBytes'>,
  room: QuotaRoom,
): Promise<Inspection> {
  const { upload } = core.content;
  const isReceived = (): boolean => upload.kind === 'server' && upload.receiver.isReceiving(generation);
  if (!isReceived()) {
    const object = await core.content.inspect(space, generation, hash, core.settings);
    const evidence = object.found ? object.evidence : undefined;
    const isUnseen = upload.kind === 'direct' && seenBytes === undefined && evidence?.verdict === 'good';
    // What lies in the store counts from now on, beside all else that is received and not judged.
    if (isUnseen && room.input !== undefined)
      await countUnseen(core, { space, generation, of: { hash } }, evidence.canonicalSize);
    if (!isReceived()) return { generation, isReceiving: false, evidence };
  }
  return { generation, isReceiving: true, evidence: undefined };
}

async function answer(
  core: Core,
  space: Space,
  decision: FinalDecision,
  urls: UploadUrls,
): Promise<LeaseResponse> {
  if (decision.kind === 'ready') {
    const { hash, leaseStartedAt, leaseExpiresAt } = decision;
    if (decision.heals) core.rottenNodes.noteReady(space, hash, 'healed');
    return { state: 'ready', hash, leaseStartedAt, leaseExpiresAt };
  }
  if (decision.kind === 'children') {
    return { state: 'validated_awaiting_children', hash: decision.hash, childHashes: decision.childHashes };
  }
  const { row } = decision;
  const upload = await instructUpload(core, space, row, urls);
  if (row.rejection === undefined) return { state: 'awaiting_upload', hash: row.hash, upload };
  return { state: 'awaiting_replacement_upload', hash: row.hash, rejection: row.rejection, upload };
}

/** Signs the URL. Called only after the upload row with this expiry is durable. */
async function instructUpload(
  core: Core,
  space: Space,
  row: UploadRow,
  { uploadOrigin, holder }: UploadUrls,
) {
  const { generation, hash, urlExpiresAt: expiresAt } = row;
  const { upload } = core.content;
  if (upload.kind === 'direct') {
    const signed = await upload.signUpload(
      space,
      generation,
      { issuedAt: row.touchedAt, expiresAt },
      NODE_MEDIA_TYPE,
    );
    const { url, headers } = signed;
    return { method: 'PUT' as const, url, expiresAt: signed.expiresAt ?? expiresAt, headers };
  }
  const token = signUploadToken(core.signer, { space, hash, generation, expiresAt }, holder);
  return {
    method: 'PUT' as const,
    url: `${uploadOrigin()}/uploads/${token}`,
    expiresAt,
    headers: { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' },
  };
}
