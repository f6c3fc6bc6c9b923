/** The seven operations between HTTP and core: how each reads its request and sends its result. */
import {
  ApiError,
  HASH_BYTES,
  type Hash,
  isHash,
  type OperationName,
  parseGcRequest,
  parseLeaseRequest,
  parseListRootRefsQuery,
  parseUpdateRootRefsRequest,
} from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import { after } from '../core/awaitable.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { type LeaseOptions, leaseNode } from '../core/lease/lease-node.ts';
import type { NodeRow } from '../core/model.ts';
import { getUsage } from '../core/read/get-usage.ts';
import { readContent } from '../core/read/read-content.ts';
import { describeNode, readMetadata } from '../core/read/read-metadata.ts';
import { listRootRefs } from '../core/refs/list-root-refs.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { noteCollection } from '../metrics/note-collection.ts';
import {
  type AuthorizedCall,
  dispatch,
  dispatchText,
  refuseQuery,
  tellRot,
  waitingUpTo,
} from './authorized-call.ts';
import { contentAnswer } from './content-answer.ts';
import { ContentRequest } from './content-request.ts';
import { GC_SECONDS_MAX, VALIDATION_SECONDS_MAX } from './http-limits.ts';
import { withJsonBody, withOptionalJsonBody } from './request-body.ts';

/** Throws or rejects; async only if it must wait between reading the request and the core. */
type Operation = (call: AuthorizedCall) => Awaitable<Response>;

export const SPACE_OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  readMetadata(call) {
    const hash = readHash(call);
    refuseQuery(call);
    return dispatchText(call, () => readMetadata(call.core, call.space, hash, metadataText), tellRot);
  },

  readContent(call) {
    const hash = readHash(call);
    refuseQuery(call);
    const { exchange, core, space, copies, shares } = call;
    const range = exchange.request.headers.get('range') ?? undefined;
    const startedAt = performance.now();
    const caller = new ContentRequest(exchange, space, copies, shares);
    const answer = after(readContent(core, space, hash, range, caller), (content) => {
      exchange.timing.record('cas_dispatch', startedAt);
      const sent = contentAnswer(exchange, content);
      caller.release(content.body);
      return sent;
    });
    if (!(answer instanceof Promise)) return answer;
    return answer.catch((error: unknown) => {
      caller.drop();
      throw error;
    });
  },

  leaseNode(call) {
    const hash = readHash(call);
    refuseQuery(call);
    const { record } = call.exchange;
    const options: LeaseOptions = {
      renewsOnly: call.refusesChanges,
      holder: call.holder,
      onRenewal: () => {
        record.isRenewal = true;
      },
    };
    return withJsonBody(call.exchange, call, (bytes) => {
      const { leaseDurationMs } = parseLeaseRequest(bytes);
      const lease = (): Awaitable<Response> =>
        dispatch(
          call,
          () => leaseNode(call.core, call.space, hash, leaseDurationMs, call.uploadOrigin, options),
          tellRot,
        );
      return call.isUploadDirect ? waitingUpTo(VALIDATION_SECONDS_MAX, call, lease) : lease();
    });
  },

  getUsage(call) {
    refuseQuery(call);
    return dispatch(call, () => getUsage(call.core, call.space));
  },

  runGc(call) {
    refuseQuery(call);
    return withOptionalJsonBody(call.exchange, call, (bytes) => {
      const { maxNodes } = parseGcRequest(bytes);
      return waitingUpTo(GC_SECONDS_MAX, call, () =>
        dispatch(call, async () => noteCollection(await runGc(call.core, call.space, maxNodes))),
      );
    });
  },

  listRootRefs(call) {
    const page = parseListRootRefsQuery(new URLSearchParams(call.query));
    return dispatch(call, () => listRootRefs(call.core, call.space, readRefDomain(call), page));
  },

  updateRootRefs(call) {
    refuseQuery(call);
    return withJsonBody(call.exchange, call, (bytes) => {
      const update = parseUpdateRootRefsRequest(bytes);
      return dispatch(call, () => updateRootRefs(call.core, call.space, readRefDomain(call), update));
    });
  },
};

/** The response of each row: a store that keeps rows in memory returns the same object until the row changes. */
const metadataTexts = new WeakMap<NodeRow, string>();

function metadataText(node: NodeRow): string {
  const known = metadataTexts.get(node);
  if (known !== undefined) return known;
  const text = JSON.stringify(describeNode(node));
  // The text of more refs would take more memory than the row.
  if (node.refs.length <= 4 * HASH_BYTES) metadataTexts.set(node, text);
  return text;
}

function readHash({ rawHash }: AuthorizedCall): Hash {
  if (rawHash !== undefined && isHash(rawHash)) return rawHash;
  throw new ApiError('INVALID_REQUEST', 'the hash of the path must be 64 lowercase hexadecimal characters');
}

/** Authorization has refused a capability without one (row 10). */
function readRefDomain({ refDomain }: AuthorizedCall): string {
  if (refDomain === undefined) throw new Error('a root-ref operation was authorized without a refDomain');
  return refDomain;
}
