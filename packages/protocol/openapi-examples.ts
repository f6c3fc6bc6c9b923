/** Examples of bodies; the hashes are those of the golden vectors "Hello, CAS!" and "parent [A,B]" and its children. */

import { PACK_BYTES_MAX, PACK_MEDIA_TYPE, PACK_RECORDS_MAX } from './limits.ts';

const HELLO = '680c41c921bd56bce731e282e76bd6514986ca07ef084e77a74ee3f6581fd897';
const CHILD = 'eaa9f6a28d995a9354dba46ff13f359d5568d01963a1ca2a62ded8da46543e81';
const PARENT = 'dba39cd521c6d43c1dee6d62d555e651490dfa7424976861fc53fbf3d8fe5bad';

const STARTED_AT = 1_767_225_600_000;
const EXPIRES_AT = STARTED_AT + 600_000;

const upload = {
  method: 'PUT',
  url: 'http://127.0.0.1:8420/uploads/eyJnIjoiMDE5Li4uIn0',
  expiresAt: STARTED_AT + 300_000,
  headers: { 'content-type': 'application/vnd.holdfast.cas-node.v1', 'if-none-match': '*' },
};

const PACK_ID = '3f0c9a7e51d24b86a0e7c41d92b5f638';

export const EXAMPLE_HASH = HELLO;
export const EXAMPLE_PACK_ID = PACK_ID;

/** Schema name to named examples. */
export const EXAMPLES = {
  Health: { up: { status: 'ok' } },
  NodeDescription: {
    parent: {
      metadata: { hash: PARENT, size: 15, contentType: 'application/json', refs: [CHILD] },
      state: { leaseStartedAt: STARTED_AT, leaseExpiresAt: EXPIRES_AT, childRefCount: 0, rootRefCount: 1 },
    },
  },
  LeaseRequest: { tenMinutes: { leaseDurationMs: 600_000 } },
  LeaseResponse: {
    ready: { state: 'ready', hash: HELLO, leaseStartedAt: STARTED_AT, leaseExpiresAt: EXPIRES_AT },
    awaitingUpload: { state: 'awaiting_upload', hash: HELLO, upload },
    awaitingReplacementUpload: {
      state: 'awaiting_replacement_upload',
      hash: HELLO,
      rejection: {
        code: 'NODE_DIGEST_MISMATCH',
        message: 'the uploaded bytes have another SHA-256; upload the right ones',
      },
      upload,
    },
    validatedAwaitingChildren: { state: 'validated_awaiting_children', hash: PARENT, childHashes: [CHILD] },
  },
  SpaceUsage: {
    some: {
      nodeCount: 3,
      readyContentBytes: 26,
      readyStoredBytes: 164,
      reservedBytes: 87,
      notReadyNodeCount: 1,
      leasedNodeCount: 2,
    },
  },
  GcRequest: { bounded: { maxNodes: 1000 } },
  GcResult: { done: { examined: 12, deleted: 10, reclaimedContentBytes: 40_960 } },
  RootRefPage: {
    last: {
      refDomain: 'app:documents',
      revision: 7,
      items: [{ hash: PARENT, refCount: 1 }],
      nextCursor: null,
    },
  },
  UpdateRootRefsRequest: {
    swap: { requestId: 'move-root-2026-01-01', changes: { [HELLO]: -1, [PARENT]: 1 } },
  },
  UpdateRootRefsResponse: { committed: { success: true, idempotent: false, revision: 8 } },
  BulkLeaseRequest: {
    withPack: { leaseDurationMs: 600_000, hashes: [PARENT, HELLO], pack: true },
    renewal: { leaseDurationMs: 600_000, hashes: [HELLO] },
  },
  BulkLeaseResponse: {
    withPack: {
      results: [
        { state: 'absent', hash: PARENT },
        { state: 'ready', hash: HELLO, leaseStartedAt: STARTED_AT, leaseExpiresAt: EXPIRES_AT },
      ],
      pack: {
        id: PACK_ID,
        ...upload,
        headers: { 'content-type': PACK_MEDIA_TYPE, 'if-none-match': '*' },
        bytesMax: PACK_BYTES_MAX,
        recordsMax: PACK_RECORDS_MAX,
      },
    },
  },
  PackLeaseResponse: {
    broken: {
      results: [
        { state: 'validated_awaiting_children', hash: PARENT, childHashes: [CHILD] },
        {
          state: 'rejected',
          hash: HELLO,
          rejection: {
            code: 'NODE_DIGEST_MISMATCH',
            message: 'the bytes of the record have another SHA-256',
          },
        },
      ],
      broken: { byte: 388, message: 'record 3: codec 7 is not known; 0 is none, 1 is zstd' },
    },
  },
  BulkReadRequest: { compressed: { hashes: [PARENT, CHILD], codecs: ['zstd'] } },
} as const;

export type ExampleName = keyof typeof EXAMPLES;
