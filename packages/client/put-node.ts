/** Storing one node: lease → PUT exactly as told → lease, as often as it takes, within bounds. */
import type {
  LeaseResponse,
  ReadyLease,
  UploadInstruction,
  ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import { sleep } from './deadline.ts';
import { CasError } from './errors.ts';
import { DAMAGED_UPLOADS_MAX, PUT_ROUNDS_MAX } from './limits.ts';
import type { HashedNode } from './new-node.ts';
import type { CallOptions, Operations } from './operations.ts';
import { planBackoff } from './retry.ts';
import type { Transport } from './transport.ts';
import { unsettledUpload, uploadAsTold } from './upload-instruction.ts';

export interface PutOptions extends CallOptions {
  /** 60 s to 24 h, clamped by the service; 1 h when left out */
  readonly leaseDurationMs?: number | undefined;
}

/**
 * `ready`: stored and leased. `validated_awaiting_children`: the bytes are with the server, but the children listed are
 * not ready; put those, then put (or lease) this node again: it is not uploaded twice.
 */
export type PutResult = (ReadyLease | ValidatedAwaitingChildren) & {
  /** whether bytes of this call were accepted; false when the server had the node already */
  readonly uploaded: boolean;
};

/** How one PUT ended. `superseded`: this instruction is over (expired, or someone was first); another lease tells more. */
type UploadEnd =
  | { readonly kind: 'accepted' | 'superseded' }
  | { readonly kind: 'failed'; readonly error: CasError };

/**
 * Stores the node and returns its hash with the outcome. Throws CasError with the rejection's code when the server turned
 * the bytes down for good, `UPLOAD_REFUSED` or the failure of the PUT, `UPLOAD_UNSETTLED` when the rounds are used up.
 */
export async function putSingly(
  transport: Transport,
  operations: Operations,
  { hash, bytes }: HashedNode,
  { leaseDurationMs, signal }: PutOptions & { readonly leaseDurationMs: number },
): Promise<PutResult> {
  let uploaded = false;
  let damagedCount = 0;
  let last: { readonly end: UploadEnd; readonly wasTooLarge: boolean } | undefined;
  let instruction: UploadInstruction | undefined;
  for (let round = 1; round <= PUT_ROUNDS_MAX; round += 1) {
    // From the third round on something is odd (a race, an expired instruction): let it pass.
    if (round > 2) {
      await sleep(transport.clock, planBackoff(round - 2, transport.retry, transport.random), signal);
    }
    const lease = await operations.leaseNode(hash, { leaseDurationMs }, { signal });
    if (lease.state === 'ready' || lease.state === 'validated_awaiting_children')
      return { ...lease, uploaded };
    if (last !== undefined) {
      const failure = judgeAfterUpload(lease, last);
      if (failure === 'damaged') damagedCount += 1;
      if (failure instanceof CasError) throw failure;
      if (damagedCount > DAMAGED_UPLOADS_MAX) throw rejectionError(lease);
    }
    instruction = lease.upload;
    const end = await upload(transport, instruction, bytes, signal);
    if (end.kind === 'accepted') uploaded = true;
    last = { end, wasTooLarge: isTooLarge(lease) };
  }
  throw unsettledUpload(`putNode: ${PUT_ROUNDS_MAX} rounds of lease and upload`, instruction);
}

/** Explains a lease that still asks for bytes after our PUT: a final error, damage on the way, or nothing certain. */
function judgeAfterUpload(
  lease: LeaseResponse,
  { end, wasTooLarge }: { readonly end: UploadEnd; readonly wasTooLarge: boolean },
): CasError | 'damaged' | undefined {
  if (end.kind === 'failed') {
    // A body cut off for its size often shows as a broken connection; then the new rejection tells the real reason.
    const isReason = isTooLarge(lease) && (end.error.status === 413 || !wasTooLarge);
    return isReason ? rejectionError(lease) : end.error;
  }
  // A rejection that follows someone else's upload says nothing about our bytes.
  if (end.kind === 'superseded' || lease.state !== 'awaiting_replacement_upload') return undefined;
  // Our own digest was made from these very bytes: they were changed on the way, so sending them again may help.
  return lease.rejection.code === 'NODE_DIGEST_MISMATCH' ? 'damaged' : rejectionError(lease);
}

function isTooLarge(lease: LeaseResponse): boolean {
  return lease.state === 'awaiting_replacement_upload' && lease.rejection.code === 'NODE_TOO_LARGE';
}

function rejectionError(lease: LeaseResponse): CasError {
  if (lease.state !== 'awaiting_replacement_upload')
    throw new TypeError('only a rejected upload has a rejection');
  const { code, message } = lease.rejection;
  return new CasError(`putNode: the server rejected the node: ${message}`, {
    code,
    requestOperation: 'leaseNode',
  });
}

async function upload(
  transport: Transport,
  instruction: UploadInstruction,
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<UploadEnd> {
  try {
    return { kind: await uploadAsTold(transport, 'uploadNode', instruction, bytes, { signal }) };
  } catch (error) {
    if (!(error instanceof CasError) || signal?.aborted) throw error;
    return { kind: 'failed', error };
  }
}
