/** Reads all canonical bytes of a generation from its store, proven, as one stream that holds little of them in memory. */

import { readPieces, toByteStream } from '../core/byte-stream.ts';
import { storedObject } from '../core/contents.ts';
import type { ContentRow, Space } from '../core/model.ts';
import type { ContentDamaged, ContentLost, ContentStore } from '../core/ports.ts';

/**
 * A store on disk proves block by block, so it is read range by range, each of them small enough to be answered from memory;
 * a store across a network is asked once.
 */
const DISK_RANGE_BYTES = 256 * 1024;

/** The stream errors with ContentDamaged or ContentLost where that is proven, else with the store's own error. */
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
  const { canonicalSize } = content;
  const rangeBytes = source.upload.kind === 'server' ? DISK_RANGE_BYTES : canonicalSize;
  for (let start = 0; start < canonicalSize; start += rangeBytes) {
    let proof: ContentDamaged | ContentLost | undefined;
    const end = Math.min(start + rangeBytes, canonicalSize);
    const { body } = await source.open(storedObject(space, content), start, end, (broken) => {
      proof = broken;
    });
    try {
      yield* piecesOf(body);
    } catch (error) {
      throw proof ?? error;
    }
  }
}

async function* piecesOf(body: Uint8Array | Blob | ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (body instanceof Uint8Array) yield body;
  else if (body instanceof Blob) yield await body.bytes();
  else yield* readPieces(body);
}
