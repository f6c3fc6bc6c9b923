/** Bodies of answers. Instants are Unix time in milliseconds. */
import type { ErrorCode, RejectionCode } from './errors.ts';
import type { Hash } from './hash.ts';

export interface NodeMetadata {
  readonly hash: Hash;
  /** logical content length, bytes */
  readonly size: number;
  readonly contentType: string;
  /** ordered; duplicates kept */
  readonly refs: readonly Hash[];
}

export interface NodeState {
  readonly leaseStartedAt: number;
  readonly leaseExpiresAt: number;
  readonly childRefCount: number;
  readonly rootRefCount: number;
}

export interface NodeDescription {
  readonly metadata: NodeMetadata;
  readonly state: NodeState;
}

export interface UploadInstruction {
  readonly method: 'PUT';
  readonly url: string;
  readonly expiresAt: number;
  /** to be sent exactly; has `content-type` and `if-none-match` */
  readonly headers: Readonly<Record<string, string>>;
}

export interface Rejection {
  readonly code: RejectionCode;
  readonly message: string;
}

export interface ReadyLease {
  readonly state: 'ready';
  readonly hash: Hash;
  readonly leaseStartedAt: number;
  readonly leaseExpiresAt: number;
}

export interface AwaitingUpload {
  readonly state: 'awaiting_upload';
  readonly hash: Hash;
  readonly upload: UploadInstruction;
}

export interface AwaitingReplacementUpload {
  readonly state: 'awaiting_replacement_upload';
  readonly hash: Hash;
  readonly rejection: Rejection;
  readonly upload: UploadInstruction;
}

export interface ValidatedAwaitingChildren {
  readonly state: 'validated_awaiting_children';
  readonly hash: Hash;
  /** 1 to 256 distinct unready children in first-occurrence order */
  readonly childHashes: readonly Hash[];
}

export type LeaseResponse =
  | ReadyLease
  | AwaitingUpload
  | AwaitingReplacementUpload
  | ValidatedAwaitingChildren;

export interface SpaceUsage {
  readonly nodeCount: number;
  readonly readyContentBytes: number;
  readonly readyStoredBytes: number;
  readonly reservedBytes: number;
  readonly notReadyNodeCount: number;
  readonly leasedNodeCount: number;
}

export interface GcResult {
  readonly examined: number;
  readonly deleted: number;
  /** logical bytes */
  readonly reclaimedContentBytes: number;
}

export interface RootRefItem {
  readonly hash: Hash;
  readonly refCount: number;
}

export interface RootRefPage {
  readonly refDomain: string;
  readonly revision: number;
  readonly items: readonly RootRefItem[];
  readonly nextCursor: string | null;
}

export interface UpdateRootRefsResponse {
  readonly success: boolean;
  readonly idempotent: boolean;
  readonly revision: number;
}

export interface ErrorBody {
  readonly error: ErrorCode;
  readonly message?: string;
}

export interface Health {
  readonly status: 'ok';
}
