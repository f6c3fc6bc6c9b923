/** Decides which origins may read answers in a browser (docs/api.md, Headers). `*` is safe: there are bearer tokens and no cookies. */

/** `*`, or the origins that may read answers. */
export type CorsOrigins = '*' | readonly string[];

export type HeaderFields = Record<string, string>;

const ALLOWED_HEADERS = 'authorization, content-type, if-none-match, range, traceparent, tracestate';
const EXPOSED_HEADERS =
  'Accept-Ranges, Content-Length, Content-Range, Holdfast-Rotten-Nodes, Retry-After, Server-Timing, WWW-Authenticate, X-Request-Id';

/** Headers of every answer if every origin may read it. */
export const OPEN_CORS_HEADERS: Readonly<HeaderFields> = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': EXPOSED_HEADERS,
  'timing-allow-origin': '*',
  vary: 'Authorization',
};

/** Headers of every answer of the tenant plane and of the upload target. */
export function corsHeaders(origins: CorsOrigins, request: Request): Readonly<HeaderFields> {
  if (origins === '*') return OPEN_CORS_HEADERS;
  const origin = request.headers.get('origin');
  const headers: HeaderFields = { 'timing-allow-origin': '*', vary: 'Authorization, Origin' };
  if (origin === null || !origins.includes(origin)) return headers;
  headers['access-control-allow-origin'] = origin;
  headers['access-control-expose-headers'] = EXPOSED_HEADERS;
  return headers;
}

/** Headers of a preflight's answer besides `corsHeaders`. */
export function preflightHeaders(methods: string): HeaderFields {
  return {
    'access-control-allow-methods': methods,
    'access-control-allow-headers': ALLOWED_HEADERS,
    // A browser may remember the answer for two hours.
    'access-control-max-age': '7200',
  };
}
