/** The seven operations between HTTP and core: what each reads from the request and how its result is sent. */
import {
  ApiError,
  type Hash,
  isHash,
  type OperationName,
  parseGcRequest,
  parseLeaseRequest,
  parseListRootRefsQuery,
  parseNoQuery,
  parseUpdateRootRefsRequest,
  ROTTEN_NODES_HEADER,
} from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import { after } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import { getUsage } from '../core/get-usage.ts';
import { type LeaseOptions, leaseNode } from '../core/lease-node.ts';
import { listRootRefs } from '../core/list-root-refs.ts';
import type { Space } from '../core/model.ts';
import { readContent } from '../core/read-content.ts';
import { readMetadata } from '../core/read-metadata.ts';
import { runGc } from '../core/run-gc.ts';
import { updateRootRefs } from '../core/update-root-refs.ts';
import { noteCollection } from '../metrics/note-collection.ts';
import { contentAnswer } from './content-answer.ts';
import type { ContentCopies } from './content-copies.ts';
import { ContentRequest } from './content-request.ts';
import type { HeaderFields } from './cors.ts';
import { type Exchange, jsonAnswer } from './exchange.ts';
import { GC_SECONDS_MAX, IDLE_SECONDS_MAX, VALIDATION_SECONDS_MAX } from './http-limits.ts';
import { withJsonBody, withOptionalJsonBody } from './request-body.ts';
import type { TenantShares } from './tenant-shares.ts';

/** An authorized request of a known route. Nothing else about it is checked yet. */
export interface AuthorizedCall {
  readonly core: Core;
  readonly exchange: Exchange;
  readonly space: Space;
  /** the hash as it is in the path */
  readonly rawHash: string | undefined;
  readonly query: string | undefined;
  /** from the verified capability, the only place it may come from */
  readonly refDomain: string | undefined;
  readonly copies: ContentCopies;
  readonly shares: TenantShares;
  /** origin of upload URLs */
  readonly uploadOrigin: () => string;
  /** uploads are direct: a lease then reads the object that a client has put into the store */
  readonly isUploadDirect: boolean;
  /** changes cannot be audited at the moment: of leases only renewals are made */
  readonly refusesChanges: boolean;
}

/** Throws or rejects; async only where there is something to wait for between reading the request and the core. */
type Operation = (call: AuthorizedCall) => Awaitable<Response>;

export const SPACE_OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  readMetadata(call) {
    const hash = readHash(call);
    refuseQuery(call);
    return dispatch(call, () => readMetadata(call.core, call.space, hash), tellRot);
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

/** Allows an operation to be silent longer than usual before its connection counts as dead. */
export async function waitingUpTo(
  seconds: number,
  { exchange: { request, connections } }: AuthorizedCall,
  answer: () => Awaitable<Response>,
): Promise<Response> {
  connections?.timeout(request, seconds);
  try {
    return await answer();
  } finally {
    connections?.timeout(request, IDLE_SECONDS_MAX);
  }
}

export function dispatch(
  call: AuthorizedCall,
  operation: () => Awaitable<unknown>,
  tell?: (call: AuthorizedCall) => HeaderFields | undefined,
): Awaitable<Response> {
  const startedAt = performance.now();
  return after(operation(), (result) => {
    call.exchange.timing.record('cas_dispatch', startedAt);
    return jsonAnswer(call.exchange, 200, JSON.stringify(result), tell?.(call));
  });
}

/**
 * A node's row and metadata say nothing about the bytes of the nodes below it. This header warns a client that takes them as
 * proof of a whole tree that the Space has rotten nodes.
 */
export function tellRot({ core, space }: AuthorizedCall): HeaderFields | undefined {
  const count = core.rottenNodes.countIn(space);
  return count === 0 ? undefined : { [ROTTEN_NODES_HEADER]: String(count) };
}

function readHash({ rawHash }: AuthorizedCall): Hash {
  if (rawHash !== undefined && isHash(rawHash)) return rawHash;
  throw new ApiError('INVALID_REQUEST', 'the hash of the path must be 64 lowercase hexadecimal characters');
}

export function refuseQuery({ query }: AuthorizedCall): void {
  if (query !== undefined && query !== '') parseNoQuery(new URLSearchParams(query));
}

/** Authorization has refused a capability without one (row 10). */
function readRefDomain({ refDomain }: AuthorizedCall): string {
  if (refDomain === undefined) throw new Error('a root-ref operation was authorized without a refDomain');
  return refDomain;
}
