/** Answers of readContent (docs/api.md, readContent). */
import { after } from '../core/awaitable.ts';
import type { Awaitable } from '../core/ports.ts';
import type { ContentAnswer } from '../core/read-content.ts';
import type { ContentGathering } from './content-gathering.ts';
import { LengthMismatch } from './content-stream.ts';
import { corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import type { Exchange } from './exchange.ts';

type Sendable = Uint8Array | Blob;

/** At once when the bytes are at hand; else when they are. */
export function contentAnswer(
  exchange: Exchange,
  content: ContentAnswer,
  gathering: ContentGathering,
): Awaitable<Response> {
  const { body } = content;
  const isHead = exchange.request.method === 'HEAD';
  if (isHead && body instanceof ReadableStream) {
    return body.cancel().then(() => answerWith(exchange, content, null));
  }
  const bytes = isHead ? null : toSendable(body, content.end - content.start, gathering);
  return after(bytes, (sendable) => answerWith(exchange, content, sendable));
}

function answerWith(exchange: Exchange, content: ContentAnswer, bytes: Sendable | null): Response {
  const { status } = content;
  if (exchange.corsOrigins === '*' && status === 200) {
    return new Response(bytes as BodyInit | null, { headers: plainHeaders(exchange, content) });
  }
  const headers = contentHeaders(exchange, content);
  return new Response(bytes as BodyInit | null, { status, headers });
}

const CONTENT_FIELDS: HeaderFields = {
  'accept-ranges': 'bytes',
  'cache-control': 'private, max-age=31536000, immutable',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  // The runtime would say it of a body that is a file, with the file's name; so every answer says it, HEAD too.
  'content-disposition': 'inline',
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
): Awaitable<Sendable> {
  if (body instanceof ReadableStream) return gathering.gather(body, length);
  const given = body instanceof Blob ? body.size : body.length;
  if (given !== length) throw new LengthMismatch(`content of ${length} bytes came as ${given}`);
  return body;
}
