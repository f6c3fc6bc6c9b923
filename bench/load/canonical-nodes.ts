/** Endless distinct nodes of one size, for load: the envelope is made once, only eight content bytes change. */
import { encodeNode } from '@holdfast/protocol';

export interface LoadNode {
  readonly hash: string;
  /** a view that the next call overwrites */
  readonly bytes: Uint8Array;
}

const CONTENT_TYPE = 'application/octet-stream';
const NO_REFS: readonly string[] = [];

/** Content of `size` ≥ 16 bytes that differs for every (seed, index); random-looking, so that nothing compresses it. */
export function createNodeSource(size: number, seed: string): () => LoadNode {
  const content = new Uint8Array(size);
  let state = Number(Bun.hash.xxHash32(seed)) | 1;
  for (let index = 0; index < size; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    content[index] = state >>> 24;
  }
  content.set(new TextEncoder().encode(seed).subarray(0, size - 8), 0);
  const bytes = encodeNode({ contentType: CONTENT_TYPE, refs: NO_REFS, content });
  const counter = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 8, 8);
  let index = 0;
  return () => {
    counter.setFloat64(0, index++);
    return { hash: new Bun.CryptoHasher('sha256').update(bytes).digest('hex'), bytes };
  };
}

/** Content size that makes the canonical bytes exactly `canonicalBytes` long. */
export function contentBytesOf(canonicalBytes: number): number {
  return (
    canonicalBytes -
    encodeNode({ contentType: CONTENT_TYPE, refs: NO_REFS, content: new Uint8Array(0) }).length
  );
}
