/** Reads all canonical bytes of a generation as one stream. Every byte is proven, and only a small part is in memory. */

import { toByteStream } from '../core/byte-stream.ts';
import { storedObject } from '../core/contents.ts';
import type { ContentRow, Space } from '../core/model.ts';
import { CONTENT_PIECE_BYTES, type ContentStore } from '../core/ports.ts';

/** The stream fails with ContentDamaged or ContentLost if that is proven, otherwise with the store's own error. */
export function readCanonicalBytes(
  source: ContentStore,
  space: Space,
  content: ContentRow,
): ReadableStream<Uint8Array> {
  const pieces =
    content.inlineBytes === undefined
      ? readObject(source, space, content)
      : readInline(source, content, content.inlineBytes);
  return toByteStream(pieces);
}

async function* readInline(
  source: ContentStore,
  content: ContentRow,
  bytes: Uint8Array,
): AsyncGenerator<Uint8Array> {
  source.verifyInline(content);
  yield bytes;
}

async function* readObject(
  source: ContentStore,
  space: Space,
  content: ContentRow,
): AsyncGenerator<Uint8Array> {
  const object = storedObject(space, content);
  for (let start = 0; start < object.canonicalSize; start += CONTENT_PIECE_BYTES) {
    yield await source.read(object, start, Math.min(start + CONTENT_PIECE_BYTES, object.canonicalSize));
  }
}
