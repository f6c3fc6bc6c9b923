/** The rules that all parts of the reference model share. */
import { sha256Hex } from '../support/canonical-node.ts';
import { getPoolNode, NODE_BYTES_MAX } from './node-pool.ts';

export const MODEL_SETTINGS = {
  nodeBytesMax: NODE_BYTES_MAX,
  activeUploadsMax: 3,
  uploadTtlMs: 300_000,
  abandonedAfterMs: 86_400_000,
  rootRefHistoryMs: 86_400_000,
  keepReplacedMs: 0,
  commitRecordsKeptMs: 172_800_000,
} as const;

export interface ModelNode {
  readonly hash: string;
  state: 'waiting' | 'ready' | 'rotten' | 'claimed';
  leaseStartedAt: number;
  leaseExpiresAt: number;
  /** last lease call; matters while waiting */
  touchedAt: number;
  /** the truth about the stored bytes, which the system may not have noticed yet */
  bytes: 'good' | 'flipped' | 'lost';
  /** what they take in the store: canonical by v1, the stored length of their record by a pack */
  storedBytes: number;
}

export function clampMs(requestedMs: number): number {
  return Math.min(Math.max(requestedMs, 60_000), 86_400_000);
}

/** The order in which leaseNode judges an upload: length, digest, format. */
export function judge(hash: string, object: Uint8Array | 'too-large'): string | undefined {
  if (object === 'too-large' || object.length > MODEL_SETTINGS.nodeBytesMax) return 'NODE_TOO_LARGE';
  if (sha256Hex(object) !== hash) return 'NODE_DIGEST_MISMATCH';
  return getPoolNode(hash).isValid ? undefined : 'INVALID_CANONICAL_NODE';
}
