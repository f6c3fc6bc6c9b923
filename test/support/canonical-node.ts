/**
 * Canonical nodes written from the table of docs/api.md alone, on purpose without the product's codec, so that a
 * shared mistake cannot hide.
 */
import { createHash } from 'node:crypto';

export interface CanonicalNode {
  readonly hash: string;
  readonly contentType: string;
  readonly refs: readonly string[];
  readonly content: Uint8Array;
  /** header, content type, refs, content */
  readonly bytes: Uint8Array;
}

const HEADER_BYTES = 24;

export function sha256Hex(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function makeNode(
  content: Uint8Array | string,
  options: { contentType?: string; refs?: readonly string[] } = {},
): CanonicalNode {
  const body = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  const contentType = options.contentType ?? 'application/octet-stream';
  const refs = options.refs ?? [];
  const type = new TextEncoder().encode(contentType);
  const header = new DataView(new ArrayBuffer(HEADER_BYTES));
  header.setUint8(0, 0x55);
  header.setUint8(1, 0x44);
  header.setUint16(2, 1, true);
  header.setUint32(4, 0, true);
  header.setBigUint64(8, BigInt(body.length), true);
  header.setUint32(16, refs.length, true);
  header.setUint16(20, type.length, true);
  header.setUint16(22, 0, true);
  const rawRefs = refs.map((ref) => Buffer.from(ref, 'hex'));
  const bytes = new Uint8Array(Buffer.concat([new Uint8Array(header.buffer), type, ...rawRefs, body]));
  return { hash: sha256Hex(bytes), contentType, refs, content: body, bytes };
}

/** Reproducible bytes: the same seed gives the same content (xorshift, not for secrets). */
export function seededBytes(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = (seed * 2654435761 + 1) >>> 0 || 1;
  for (let index = 0; index < length; index += 1) {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    bytes[index] = state & 0xff;
  }
  return bytes;
}
