/**
 * One request in progress: what every step needs, what request-report.ts reads of it afterwards, and the answers that all operations
 * share.
 */
import { parseNoQuery, ROTTEN_NODES_HEADER } from '@holdfast/protocol';
import type { Capability, RequestedOperation } from '../auth/capability.ts';
import { type Awaitable, after } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import type { UploadHolder } from '../core/lease/upload-token.ts';
import type { Space } from '../core/model.ts';
import type { Hold } from '../shares/fair-shares.ts';
import type { ContentCopies } from './content-copies.ts';
import { type CorsOrigins, corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import { type Connections, originOf, peerShareOf, type TrustedProxies } from './peer.ts';
import { RequestTiming } from './request-timing.ts';
import type { TenantShares } from './tenant-shares.ts';

/** `upload`: a PUT to our own upload target. `other`: an unknown route, the front page, a preflight. */
export type ServedOperation = RequestedOperation | 'upload' | 'other';

export interface Surroundings {
  readonly corsOrigins: CorsOrigins;
  /** s that a connection may be idle, unless the operation sets another limit */
  readonly idleSeconds: number;
  readonly proxies: TrustedProxies;
}

export class Exchange {
  readonly request: Request;
  /** the request's, cached because the runtime creates it on each access */
  readonly method: string;
  readonly timing = new RequestTiming();
  readonly connections: Connections | undefined;
  readonly corsOrigins: CorsOrigins;
  readonly idleSeconds: number;
  readonly proxies: TrustedProxies;
  /** the body that is being received for it now, if any: it can be cut off */
  body: { giveWay(): void } | undefined;
  /** its place among the requests in progress, if counted; released with the response */
  hold: Hold | undefined;
  operation: ServedOperation = 'other';
  /** verified, or undefined */
  capability: Capability | undefined;
  /** from the path or an upload URL: a path alone does not prove that the caller may use it */
  space: Space | undefined;
  /** of an answer's body */
  sentBytes = 0;
  /** of a request's body */
  receivedBytes = 0;
  /** as the answer says it */
  errorCode: string | undefined;
  /** the App whose key set could not be used, if that refused the request */
  appWithoutKeys: string | undefined;
  /** as the header X-Request-Id says it */
  requestId: string | undefined;
  /** a lease of a node that was ready already */
  isRenewal = false;

  constructor(request: Request, connections: Connections | undefined, surroundings: Surroundings) {
    this.request = request;
    this.method = request.method;
    this.connections = connections;
    this.corsOrigins = surroundings.corsOrigins;
    this.idleSeconds = surroundings.idleSeconds;
    this.proxies = surroundings.proxies;
  }

  /** The address of the client; undefined if its connection is gone. */
  get peer(): string | undefined {
    return this.proxies.peerOf(this.request, this.connections);
  }

  get scheme(): 'http' | 'https' {
    return this.proxies.schemeOf(this.request, this.connections);
  }

  /** scheme and authority of this server as the client knows it */
  get origin(): string {
    return originOf(this.request, this.scheme);
  }

  /** whose share the request uses until its capability is verified */
  peerShare(): string {
    return peerShareOf(this.peer);
  }
}

/** An authorized request of a known route. Nothing else about it is checked yet. */
export interface AuthorizedCall {
  readonly core: Core;
  readonly exchange: Exchange;
  readonly space: Space;
  /** the hash as it is in the path */
  readonly rawHash: string | undefined;
  /** the pack's id in the path of a Bulk lease */
  readonly packId: string | undefined;
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

const JSON_FIELDS: HeaderFields = { 'content-type': 'application/json', 'cache-control': 'no-store' };

/** Reused: filled in and copied for each response, which is several times cheaper than a new set. */
const OPEN_JSON_HEADERS = new Headers({ ...OPEN_CORS_HEADERS, ...JSON_FIELDS });
const OPEN_JSON_INIT: ResponseInit = { headers: OPEN_JSON_HEADERS };

/** The id used in the response, the log, the audit log and traces. */
export function requestIdOf(exchange: Exchange): string {
  exchange.requestId ??= crypto.randomUUID();
  return exchange.requestId;
}

/** A JSON answer. HEAD gets the same headers without the body. */
export function jsonAnswer(exchange: Exchange, status: number, text: string, more?: HeaderFields): Response {
  const { timing, corsOrigins } = exchange;
  const isHead = exchange.method === 'HEAD';
  if (corsOrigins === '*' && more === undefined && !isHead) {
    exchange.sentBytes = Buffer.byteLength(text);
    OPEN_JSON_HEADERS.set('server-timing', timing.render());
    return new Response(text, status === 200 ? OPEN_JSON_INIT : { status, headers: OPEN_JSON_HEADERS });
  }
  return textAnswer(exchange, status, text, { ...JSON_FIELDS, ...more });
}

/** A text response described by `headers`. HEAD gets the same headers without the body. */
export function textAnswer(
  exchange: Exchange,
  status: number,
  text: string,
  headers: Readonly<HeaderFields>,
): Response {
  const { request, timing, corsOrigins } = exchange;
  const fields: HeaderFields = {
    ...corsHeaders(corsOrigins, request),
    'server-timing': timing.render(),
    ...headers,
  };
  const bytes = Buffer.byteLength(text);
  if (exchange.method !== 'HEAD') {
    exchange.sentBytes = bytes;
    return new Response(text, { status, headers: fields });
  }
  fields['content-length'] = String(bytes);
  return new Response(null, { status, headers: fields });
}

export function emptyAnswer(exchange: Exchange, status: number, headers?: HeaderFields): Response {
  const { request, timing, corsOrigins } = exchange;
  const fields = {
    ...corsHeaders(corsOrigins, request),
    'server-timing': timing.render(),
    ...headers,
  };
  return new Response(null, { status, headers: fields });
}

/** Throws or rejects; async only if it must wait between reading the request and the core. */
export type Operation = (call: AuthorizedCall) => Awaitable<Response>;

/** Runs a long operation, during which the connection may be silent for `seconds`. */
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

/** As `dispatch`, if the operation itself returns the JSON text. */
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

interface RequestTarget {
  /** still percent-encoded; begins with `/` */
  readonly path: string;
  /** after the `?`; undefined without one */
  readonly query: string | undefined;
}

/** The runtime gives an absolute URL, or a bare path if the request had no usable Host. */
export function splitUrl(url: string): RequestTarget {
  const authorityAt = url.startsWith('/') ? 0 : url.indexOf('://') + 3;
  const pathAt = url.indexOf('/', authorityAt);
  if (pathAt < 0) return { path: '/', query: undefined };
  const queryAt = url.indexOf('?', pathAt);
  if (queryAt < 0) return { path: url.slice(pathAt), query: undefined };
  return { path: url.slice(pathAt, queryAt), query: url.slice(queryAt + 1) };
}
