/**
 * The canonical node encoding, written a second time on purpose (docs/api.md, Canonical node bytes): a mistake in the project's own codec
 * must not hide itself. The golden vectors prove this one.
 */
import { createHash, randomBytes } from 'node:crypto';

export const NODE_MEDIA_TYPE = 'application/vnd.holdfast.cas-node.v1';
const HEADER_BYTES = 24;

export interface SampleNode {
  readonly hash: string;
  /** canonical bytes */
  readonly bytes: Uint8Array;
  readonly contentType: string;
  readonly refs: readonly string[];
  readonly content: Uint8Array;
}

export function sha256Hex(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Header fields that a broken envelope may lie about. */
export interface EnvelopeLies {
  readonly signature?: readonly [number, number];
  readonly version?: number;
  readonly flags?: number;
  readonly size?: bigint;
  readonly refCount?: number;
  readonly contentTypeLength?: number;
  readonly reserved?: number;
  readonly contentTypeBytes?: Uint8Array;
}

export function encodeEnvelope(
  contentType: string,
  refs: readonly string[],
  content: Uint8Array,
  lies: EnvelopeLies = {},
): Uint8Array {
  const typeBytes = lies.contentTypeBytes ?? new TextEncoder().encode(contentType);
  const bytes = new Uint8Array(HEADER_BYTES + typeBytes.length + refs.length * 32 + content.length);
  const view = new DataView(bytes.buffer);
  bytes.set(lies.signature ?? [0x55, 0x44], 0);
  view.setUint16(2, lies.version ?? 1, true);
  view.setUint32(4, lies.flags ?? 0, true);
  view.setBigUint64(8, lies.size ?? BigInt(content.length), true);
  view.setUint32(16, lies.refCount ?? refs.length, true);
  view.setUint16(20, lies.contentTypeLength ?? typeBytes.length, true);
  view.setUint16(22, lies.reserved ?? 0, true);
  bytes.set(typeBytes, HEADER_BYTES);
  let at = HEADER_BYTES + typeBytes.length;
  for (const ref of refs) {
    bytes.set(Buffer.from(ref, 'hex'), at);
    at += 32;
  }
  bytes.set(content, at);
  return bytes;
}

export interface NodeSketch {
  readonly contentType?: string;
  readonly refs?: readonly string[];
  readonly content?: Uint8Array | string;
}

export const NODE_REFS_MAX = 256;

export function makeNode(sketch: NodeSketch = {}): SampleNode {
  const contentType = sketch.contentType ?? 'application/octet-stream';
  const refs = sketch.refs ?? [];
  const content =
    typeof sketch.content === 'string'
      ? new TextEncoder().encode(sketch.content)
      : (sketch.content ?? randomContent(32));
  const bytes = encodeEnvelope(contentType, refs, content);
  return { hash: sha256Hex(bytes), bytes, contentType, refs, content };
}

/** A valid node whose canonical form is exactly `canonicalBytes` long. */
export function makeNodeOfCanonicalSize(canonicalBytes: number): SampleNode {
  const contentType = 'application/octet-stream';
  const contentBytes = canonicalBytes - HEADER_BYTES - contentType.length;
  return makeNode({ contentType, content: randomContent(contentBytes) });
}

export function randomContent(byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  const seed = randomBytes(Math.min(byteLength, 65_536));
  for (let at = 0; at < byteLength; at += seed.length) {
    bytes.set(seed.subarray(0, Math.min(seed.length, byteLength - at)), at);
  }
  // Repeats of one seed would make every block equal, and a misplaced block invisible.
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 4 <= byteLength; at += 4096) view.setUint32(at, at ^ view.getUint32(at, true), true);
  return bytes;
}

export function randomHash(): string {
  return randomBytes(32).toString('hex');
}
