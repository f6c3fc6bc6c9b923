/** One request in progress, with everything that each step needs. */

import type { Hold } from '../shares/fair-shares.ts';
import type { WatchedBody } from './body-watch.ts';
import { type CorsOrigins, corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import type { RequestRecord } from './request-record.ts';
import type { RequestTiming } from './request-timing.ts';

/** The part of the runtime's server that the handler uses; absent when a handler is called without a socket. */
export interface Connections {
  /** From now on the connection of `request` counts as dead after this many seconds of silence. */
  timeout(request: Request, seconds: number): void;
  /** The other end of its connection; null once it is gone. */
  requestIP(request: Request): { readonly address: string } | null;
}

export interface Exchange {
  readonly request: Request;
  /** the request's, cached because the runtime creates it on each access */
  readonly method: string;
  readonly timing: RequestTiming;
  readonly record: RequestRecord;
  readonly corsOrigins: CorsOrigins;
  readonly connections: Connections | undefined;
  /** s that its connection may be idle, unless the operation sets another limit */
  readonly idleSeconds: number;
  /** the body that is being received for it now, if any: it can be cut off */
  body?: WatchedBody | undefined;
  /** its place among the requests in progress, if counted; released with the response */
  hold?: Hold | undefined;
}

const JSON_FIELDS: HeaderFields = { 'content-type': 'application/json', 'cache-control': 'no-store' };

/** Reused: filled in and copied for each response, which is several times cheaper than a new set. */
const OPEN_JSON_HEADERS = new Headers({ ...OPEN_CORS_HEADERS, ...JSON_FIELDS });
const OPEN_JSON_INIT: ResponseInit = { headers: OPEN_JSON_HEADERS };

/** The id used in the response, the log, the audit log and traces. */
export function requestIdOf({ record }: Exchange): string {
  record.requestId ??= crypto.randomUUID();
  return record.requestId;
}

/** A JSON answer. HEAD gets the same headers without the body. */
export function jsonAnswer(exchange: Exchange, status: number, text: string, more?: HeaderFields): Response {
  const { timing, corsOrigins } = exchange;
  const isHead = exchange.method === 'HEAD';
  if (corsOrigins === '*' && more === undefined && !isHead) {
    exchange.record.sentBytes = Buffer.byteLength(text);
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
    exchange.record.sentBytes = bytes;
    return new Response(text, { status, headers: fields });
  }
  fields['content-length'] = String(bytes);
  return new Response(null, { status, headers: fields });
}

/** An answer without a body. */
export function emptyAnswer(exchange: Exchange, status: number, headers?: HeaderFields): Response {
  const { request, timing, corsOrigins } = exchange;
  const fields = {
    ...corsHeaders(corsOrigins, request),
    'server-timing': timing.render(),
    ...headers,
  };
  return new Response(null, { status, headers: fields });
}
