/** Answers of readContent (docs/api.md). */
import type { ContentAnswer } from '../core/read/read-content.ts';
import { corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import type { Exchange } from './exchange.ts';

export function contentAnswer(exchange: Exchange, content: ContentAnswer): Response {
  const { status } = content;
  const isHead = exchange.method === 'HEAD';
  const body = isHead ? null : (content.body as BodyInit);
  if (!isHead) exchange.record.sentBytes = content.end - content.start;
  if (exchange.corsOrigins === '*' && status === 200) {
    return new Response(body, { headers: plainHeaders(exchange, content) });
  }
  return new Response(body, { status, headers: contentHeaders(exchange, content) });
}

const CONTENT_FIELDS: HeaderFields = {
  'accept-ranges': 'bytes',
  'cache-control': 'private, max-age=31536000, immutable',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  // Without this header the runtime would send the file name of the body. So every response has it, HEAD too.
  'content-disposition': 'inline',
};

/** Reused: filled in and copied for each response, as in exchange.ts. */
const OPEN_CONTENT_HEADERS = new Headers({ ...OPEN_CORS_HEADERS, ...CONTENT_FIELDS });

/** The headers for a node's whole content if every origin may read: the same fields as `contentHeaders` makes. */
function plainHeaders({ timing }: Exchange, { start, end, contentType }: ContentAnswer): Headers {
  OPEN_CONTENT_HEADERS.set('content-type', sendable(contentType));
  OPEN_CONTENT_HEADERS.set('content-length', String(end - start));
  OPEN_CONTENT_HEADERS.set('server-timing', timing.render());
  return OPEN_CONTENT_HEADERS;
}

function contentHeaders(exchange: Exchange, content: ContentAnswer): HeaderFields {
  const { start, end, size } = content;
  const headers: HeaderFields = {
    ...corsHeaders(exchange.corsOrigins, exchange.request),
    ...CONTENT_FIELDS,
    'content-type': sendable(content.contentType),
    'content-length': String(end - start),
    'server-timing': exchange.timing.render(),
  };
  if (content.status === 206) headers['content-range'] = `bytes ${start}-${end - 1}/${size}`;
  return headers;
}

/** Whitespace alone is a valid content type, but no header can carry it. The metadata has the exact type. */
function sendable(contentType: string): string {
  return /^ +$/.test(contentType) ? 'application/octet-stream' : contentType;
}
