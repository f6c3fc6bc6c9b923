/** Answers of readContent (spec readContent; contract section 8). */
import type { ContentAnswer } from '../core/read-content.ts';
import { type ContentSpool, LengthMismatch } from './content-spool.ts';
import { corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { BUFFERED_ANSWER_BYTES_MAX } from './http-limits.ts';

export async function contentAnswer(
  exchange: Exchange,
  content: ContentAnswer,
  spool: ContentSpool,
): Promise<Response> {
  const { body, status } = content;
  const isHead = exchange.request.method === 'HEAD';
  if (isHead && body instanceof ReadableStream) await body.cancel();
  const bytes = isHead ? null : await toSendable(body, content.end - content.start, spool);
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
  spool: ContentSpool,
): Uint8Array | Blob | Promise<Uint8Array | Blob> {
  if (body instanceof Blob) {
    if (body.size !== length) throw new LengthMismatch(`content of ${length} bytes came as ${body.size}`);
    return body;
  }
  if (body instanceof ReadableStream) {
    return length <= BUFFERED_ANSWER_BYTES_MAX ? collect(body, length) : spool.hold(body, length);
  }
  if (body.length !== length) throw new LengthMismatch(`content of ${length} bytes came as ${body.length}`);
  return body;
}

async function collect(stream: ReadableStream<Uint8Array>, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const chunk of stream as unknown as AsyncIterable<Uint8Array>) {
    if (at + chunk.length > length) throw new LengthMismatch(`content of ${length} bytes came as more`);
    bytes.set(chunk, at);
    at += chunk.length;
  }
  if (at !== length) throw new LengthMismatch(`content of ${length} bytes came as ${at}`);
  return bytes;
}
