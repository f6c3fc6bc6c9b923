/** Answers of readContent (spec readContent; contract section 8). */
import type { ContentAnswer } from '../core/read-content.ts';
import type { ContentGathering } from './content-gathering.ts';
import { LengthMismatch } from './content-stream.ts';
import { corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import type { Exchange } from './exchange.ts';

export async function contentAnswer(
  exchange: Exchange,
  content: ContentAnswer,
  gathering: ContentGathering,
): Promise<Response> {
  const { body, status } = content;
  const isHead = exchange.request.method === 'HEAD';
  if (isHead && body instanceof ReadableStream) await body.cancel();
  const bytes = isHead ? null : await toSendable(body, content.end - content.start, gathering);
  const { corsOrigins } = exchange;
  const isPlain = corsOrigins === '*' && status === 200 && !(bytes instanceof Blob);
  if (isPlain) return new Response(bytes as BodyInit | null, { headers: plainHeaders(exchange, content) });
  const headers = contentHeaders(exchange, content);
  if (bytes instanceof Blob) headers['content-disposition'] = 'inline';
  return new Response(bytes as BodyInit | null, { status, headers });
}

const CONTENT_FIELDS: HeaderFields = {
  'accept-ranges': 'bytes',
  'cache-control': 'private, max-age=31536000, immutable',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
};

/** Filled in for each answer and copied by it, as in exchange.ts. */
const OPEN_CONTENT_HEADERS = new Headers({ ...OPEN_CORS_HEADERS, ...CONTENT_FIELDS });

/** The whole of a node, to everybody: the same fields as `contentHeaders` makes. */
function plainHeaders({ timing }: Exchange, { start, end, contentType }: ContentAnswer): Headers {
  OPEN_CONTENT_HEADERS.set('content-type', contentType);
  OPEN_CONTENT_HEADERS.set('content-length', String(end - start));
  OPEN_CONTENT_HEADERS.set('server-timing', timing.render());
  return OPEN_CONTENT_HEADERS;
}

function contentHeaders(exchange: Exchange, content: ContentAnswer): HeaderFields {
  const { start, end, size } = content;
  const headers: HeaderFields = {
    ...corsHeaders(exchange.corsOrigins, exchange.request),
    ...CONTENT_FIELDS,
    'content-type': content.contentType,
    'content-length': String(end - start),
    'server-timing': exchange.timing.render(),
  };
  if (content.status === 206) headers['content-range'] = `bytes ${start}-${end - 1}/${size}`;
  return headers;
}

/** A body whose length the runtime knows, so that it sends Content-Length. */
function toSendable(
  body: ContentAnswer['body'],
  length: number,
  gathering: ContentGathering,
): Uint8Array | Blob | Promise<Uint8Array | Blob> {
  if (body instanceof ReadableStream) return gathering.gather(body, length);
  const given = body instanceof Blob ? body.size : body.length;
  if (given !== length) throw new LengthMismatch(`content of ${length} bytes came as ${given}`);
  return body;
}
