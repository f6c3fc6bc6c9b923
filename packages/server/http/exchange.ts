/** One request on its way to its answer: what every step of answering needs to know. */
import { type CorsOrigins, corsHeaders, type HeaderFields } from './cors.ts';
import type { RequestTiming } from './request-timing.ts';

/** The part of the runtime's server that the handler uses; absent when a handler is called without a socket. */
export interface Connections {
  /** Gives the connection of `request` so many seconds from now until it counts as dead. */
  timeout(request: Request, seconds: number): void;
}

export interface Exchange {
  readonly request: Request;
  readonly timing: RequestTiming;
  readonly corsOrigins: CorsOrigins;
  readonly connections: Connections | undefined;
}

/** A JSON answer. HEAD gets the same headers without the body. */
export function jsonAnswer(
  exchange: Exchange,
  status: number,
  text: string,
  headers?: HeaderFields,
): Response {
  const { request, timing, corsOrigins } = exchange;
  const fields: HeaderFields = {
    ...corsHeaders(corsOrigins, request),
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'server-timing': timing.render(),
    ...headers,
  };
  if (request.method !== 'HEAD') return new Response(text, { status, headers: fields });
  fields['content-length'] = String(Buffer.byteLength(text));
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
