/** Answers of readContent (spec readContent; contract section 8). */
import type { ContentAnswer } from '../core/read-content.ts';
import { type ContentSpool, LengthMismatch } from './content-spool.ts';
import { corsHeaders, type HeaderFields } from './cors.ts';
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
  const headers = contentHeaders(exchange, content);
  if (bytes instanceof Blob) headers['content-disposition'] = 'inline';
  return new Response(bytes as BodyInit | null, { status, headers });
}

function contentHeaders(exchange: Exchange, content: ContentAnswer): HeaderFields {
  const { start, end, size } = content;
  const headers: HeaderFields = {
    ...corsHeaders(exchange.corsOrigins, exchange.request),
    'accept-ranges': 'bytes',
    'content-type': content.contentType,
    'content-length': String(end - start),
    'cache-control': 'private, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "sandbox; default-src 'none'",
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
