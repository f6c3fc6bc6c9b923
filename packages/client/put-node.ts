/** Storing one node: lease → PUT exactly as told → lease, as often as it takes, within bounds. */
import {
  encodeNode,
  type Hash,
  type LeaseResponse,
  NodeFormatError,
  type ReadyLease,
  type UploadInstruction,
  type ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import { sleep } from './deadline.ts';
import { hashCanonicalBytes } from './digest.ts';
import { CasError } from './errors.ts';
import { DAMAGED_UPLOADS_MAX, PUT_LEASE_DURATION_MS_DEFAULT, PUT_ROUNDS_MAX } from './limits.ts';
import type { CallOptions, Operations } from './operations.ts';
import { planBackoff } from './retry.ts';
import type { Transport } from './transport.ts';
import { uploadAsTold } from './upload-instruction.ts';

export interface NewNode {
  /** 1 to 1024 characters from 0x20 to 0x7e; part of the node's identity, exactly as given */
  readonly contentType: string;
  /** children in order; duplicates count. None when left out. */
  readonly refs?: readonly Hash[] | undefined;
  /** A string is stored as UTF-8. Held in memory, as its canonical bytes are. */
  readonly content: Uint8Array | Blob | string;
}

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
 * Stores `node` and returns its hash with the outcome. Throws CasError with the rejection's code when the server turned
 * the bytes down for good, `UPLOAD_REFUSED` or the failure of the PUT, `UPLOAD_UNSETTLED` when the rounds are used up.
 */
export async function putNode(
  transport: Transport,
  operations: Operations,
  node: NewNode,
  options: PutOptions = {},
): Promise<PutResult> {
  const { signal } = options;
  const leaseDurationMs = options.leaseDurationMs ?? PUT_LEASE_DURATION_MS_DEFAULT;
  const bytes = await encode(node);
  const hash = await hashCanonicalBytes(bytes);
  let uploaded = false;
  let damagedCount = 0;
  let last: { readonly end: UploadEnd; readonly wasTooLarge: boolean } | undefined;
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
    const end = await upload(transport, lease.upload, bytes, signal);
    if (end.kind === 'accepted') uploaded = true;
    last = { end, wasTooLarge: isTooLarge(lease) };
  }
  throw new CasError(
    `putNode: ${PUT_ROUNDS_MAX} rounds of lease and upload settled nothing; try again later`,
    {
      code: 'UPLOAD_UNSETTLED',
      requestOperation: 'uploadNode',
      cause: last?.end.kind === 'failed' ? last.end.error : undefined,
    },
  );
}

/** What a lease that still asks for bytes means after our PUT: a final error, damage on the way, or nothing certain. */
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

/** Bytes and strings are taken over before the first await: what the caller changes later does not count. */
async function encode({ contentType, refs = [], content }: NewNode): Promise<Uint8Array> {
  const isAtHand = content instanceof Uint8Array || typeof content === 'string';
  const bytes = isAtHand ? toBytes(content) : new Uint8Array(await content.arrayBuffer());
  try {
    return encodeNode({ contentType, refs, content: bytes });
  } catch (cause) {
    if (!(cause instanceof NodeFormatError)) throw cause;
    throw invalidNode(cause.message, cause);
  }
}

function toBytes(content: Uint8Array | string): Uint8Array {
  if (typeof content !== 'string') return content;
  // TextEncoder would quietly store something else.
  if (!content.isWellFormed())
    throw invalidNode('the text has half of a surrogate pair, which UTF-8 cannot hold');
  return new TextEncoder().encode(content);
}

function invalidNode(reason: string, cause?: unknown): CasError {
  const details = { code: 'INVALID_ARGUMENT', requestOperation: 'uploadNode', cause } as const;
  return new CasError(`putNode: ${reason}`, details);
}
