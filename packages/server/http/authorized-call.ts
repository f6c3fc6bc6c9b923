/** An authorized request, and the steps that operations of different kinds share. */
import { parseNoQuery, ROTTEN_NODES_HEADER } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import { after } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import type { UploadHolder } from '../core/lease/upload-token.ts';
import type { Space } from '../core/model.ts';
import type { ContentCopies } from './content-copies.ts';
import type { HeaderFields } from './cors.ts';
import { type Exchange, jsonAnswer } from './exchange.ts';
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
  /** to whom upload URLs are given */
  readonly holder: UploadHolder;
  readonly copies: ContentCopies;
  readonly shares: TenantShares;
  /** origin of upload URLs */
  readonly uploadOrigin: () => string;
  /** uploads are direct: a lease then reads the object that a client has put into the store */
  readonly isUploadDirect: boolean;
  /** changes cannot be audited at the moment: of leases only renewals are made */
  readonly refusesChanges: boolean;
}

/** Extends the permitted silence of the connection for a long operation. */
export async function waitingUpTo(
  seconds: number,
  { exchange: { request, connections, idleSeconds } }: AuthorizedCall,
  answer: () => Awaitable<Response>,
): Promise<Response> {
  connections?.timeout(request, seconds);
  try {
    return await answer();
  } finally {
    connections?.timeout(request, idleSeconds);
  }
}

/** Runs the operation and answers with its result as JSON, and with the headers that `tell` adds. */
export function dispatch(
  call: AuthorizedCall,
  operation: () => Awaitable<unknown>,
  tell?: (call: AuthorizedCall) => HeaderFields | undefined,
): Awaitable<Response> {
  return dispatchText(call, () => after(operation(), (result) => JSON.stringify(result)), tell);
}

/** The same where the operation gives the text of the answer. */
export function dispatchText(
  call: AuthorizedCall,
  operation: () => Awaitable<string>,
  tell?: (call: AuthorizedCall) => HeaderFields | undefined,
): Awaitable<Response> {
  const startedAt = performance.now();
  return after(operation(), (text) => {
    call.exchange.timing.record('cas_dispatch', startedAt);
    return jsonAnswer(call.exchange, 200, text, tell?.(call));
  });
}

/** Metadata of a node proves nothing about the bytes of its descendants. This header tells clients that the Space has rotten nodes. */
export function tellRot({ core, space }: AuthorizedCall): HeaderFields | undefined {
  const count = core.rottenNodes.countIn(space);
  return count === 0 ? undefined : { [ROTTEN_NODES_HEADER]: String(count) };
}

export function refuseQuery({ query }: AuthorizedCall): void {
  if (query !== undefined && query !== '') parseNoQuery(new URLSearchParams(query));
}
