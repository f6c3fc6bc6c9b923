/** Canonical node bytes, version 1 (docs/api.md, Canonical node bytes): header, content type, refs, content; no padding, little-endian. */
import { HASH_BYTES, type Hash, hashesToRefs, isHash } from './hash.ts';
import { CONTENT_TYPE_BYTES_MAX, INTEGER_MAX, NODE_REFS_MAX } from './limits.ts';
import { readU16, readU32, writeU32 } from './little-endian.ts';
import { countOf } from './size.ts';

/** Bytes before the content type. */
export const NODE_FIXED_HEADER_BYTES = 24;
/** Fixed header, longest content type, most refs. */
export const NODE_HEADER_BYTES_MAX =
  NODE_FIXED_HEADER_BYTES + CONTENT_TYPE_BYTES_MAX + NODE_REFS_MAX * HASH_BYTES;

const SIGNATURE = [0x55, 0x44] as const;
const NODE_FORMAT_VERSION = 1;
/** Where each field of the fixed header begins; the flags and the reserved bytes are 0. */
const AT = { version: 2, flags: 4, size: 8, refCount: 16, contentTypeLength: 20, reserved: 22 } as const;

/** Bytes or parts that do not form a canonical node. The message names the rule that they break. */
export class NodeFormatError extends Error {
  override readonly name = 'NodeFormatError';
}

export interface NodeHeader {
  readonly contentType: string;
  /** ordered, 32 raw bytes each */
  readonly refs: Uint8Array;
  /** logical content length, bytes */
  readonly size: number;
  /** offset of the content, bytes */
  readonly headerLength: number;
}

export interface DecodedNode {
  readonly contentType: string;
  /** view of the input: ordered, 32 raw bytes each */
  readonly refs: Uint8Array;
  /** view of the input */
  readonly content: Uint8Array;
  readonly headerLength: number;
}

/** Everything before the content. Throws NodeFormatError when the parts make no canonical node. */
export function encodeNodeHeader(node: {
  readonly contentType: string;
  readonly refs: readonly Hash[];
  /** content length, bytes */
  readonly size: number;
}): Uint8Array {
  return encodeInto(node, 0);
}

/** Gives a header made for another `size` this one, bytes. */
export function writeNodeSize(header: Uint8Array, size: number): void {
  writeU32(header, AT.size, size % 2 ** 32);
  writeU32(header, AT.size + 4, Math.floor(size / 2 ** 32));
}

/** The whole canonical node. Throws NodeFormatError when the parts make none. */
export function encodeNode(node: {
  readonly contentType: string;
  readonly refs: readonly Hash[];
  readonly content: Uint8Array;
}): Uint8Array {
  const { contentType, refs, content } = node;
  const bytes = encodeInto({ contentType, refs, size: content.length }, content.length);
  bytes.set(content, bytes.length - content.length);
  return bytes;
}

/** Reads a whole canonical node; `refs` and `content` are views of `bytes`. Throws NodeFormatError. */
export function decodeNode(bytes: Uint8Array): DecodedNode {
  const { contentType, refs, headerLength } = readHeader(bytes, bytes.length);
  return { contentType, refs, content: bytes.subarray(headerLength), headerLength };
}

/** Reads the header of a node from chunks of any size; holds only the header's bytes. It judges nothing until `finish`. */
export class NodeHeaderParser {
  #kept = new Uint8Array(NODE_FIXED_HEADER_BYTES);
  #keptLength = 0;
  /** Set once the fixed header is whole; 24 while it is not, and when it is invalid: more bytes would not help. */
  #wantedLength = NODE_FIXED_HEADER_BYTES;

  push(chunk: Uint8Array): void {
    if (this.#keptLength === this.#wantedLength) return;
    const taken = this.#take(chunk, 0);
    if (this.#keptLength !== NODE_FIXED_HEADER_BYTES) return;
    if (this.#wantedLength !== NODE_FIXED_HEADER_BYTES) return;
    if (findFixedHeaderFault(this.#kept) !== undefined) return;
    this.#wantedLength = readHeaderLength(this.#kept);
    const grown = new Uint8Array(this.#wantedLength);
    grown.set(this.#kept);
    this.#kept = grown;
    this.#take(chunk, taken);
  }

  /** The header of a node of `totalBytes`. `refs`: a view. Throws NodeFormatError unless the whole is a canonical node. */
  finish(totalBytes: number): NodeHeader {
    return readHeader(this.#kept.subarray(0, this.#keptLength), totalBytes);
  }

  /** Keeps what is still wanted of `chunk` from `from` on; returns how far it got. */
  #take(chunk: Uint8Array, from: number): number {
    const end = Math.min(chunk.length, from + this.#wantedLength - this.#keptLength);
    this.#kept.set(from === 0 && end === chunk.length ? chunk : chunk.subarray(from, end), this.#keptLength);
    this.#keptLength += end - from;
    return end;
  }
}

function encodeInto(
  node: { readonly contentType: string; readonly refs: readonly Hash[]; readonly size: number },
  spareBytes: number,
): Uint8Array {
  const { contentType, refs, size } = node;
  checkParts(contentType, refs, size);
  const typeEnd = NODE_FIXED_HEADER_BYTES + contentType.length;
  const bytes = new Uint8Array(typeEnd + refs.length * HASH_BYTES + spareBytes);
  bytes[0] = SIGNATURE[0];
  bytes[1] = SIGNATURE[1];
  bytes[AT.version] = NODE_FORMAT_VERSION;
  writeNodeSize(bytes, size);
  writeU32(bytes, AT.refCount, refs.length);
  bytes[AT.contentTypeLength] = contentType.length & 0xff;
  bytes[AT.contentTypeLength + 1] = contentType.length >>> 8;
  for (let index = 0; index < contentType.length; index++) {
    bytes[NODE_FIXED_HEADER_BYTES + index] = contentType.charCodeAt(index);
  }
  if (refs.length > 0) bytes.set(hashesToRefs(refs), typeEnd);
  return bytes;
}

function checkParts(contentType: string, refs: readonly Hash[], size: number): void {
  if (contentType.length < 1 || contentType.length > CONTENT_TYPE_BYTES_MAX) {
    throw new NodeFormatError(contentTypeLengthFault(contentType.length));
  }
  for (let index = 0; index < contentType.length; index++) {
    const code = contentType.charCodeAt(index);
    if (code < 0x20 || code > 0x7e) throw new NodeFormatError(contentTypeByteFault(code, index));
  }
  if (refs.length > NODE_REFS_MAX) throw new NodeFormatError(refCountFault(refs.length));
  const wrong = refs.findIndex((ref) => !isHash(ref));
  if (wrong >= 0) throw new NodeFormatError(`ref ${wrong} is not 64 lowercase hexadecimal characters`);
  if (!Number.isSafeInteger(size) || size < 0) throw new NodeFormatError(sizeFault());
}

/** `head` holds the node's first bytes, as many as the header has unless the node is shorter or its fixed part invalid. */
function readHeader(head: Uint8Array, totalBytes: number): NodeHeader {
  if (totalBytes < NODE_FIXED_HEADER_BYTES || head.length < NODE_FIXED_HEADER_BYTES) {
    throw new NodeFormatError(
      `the node has ${countOf(totalBytes, 'byte')}; its fixed header alone has ${NODE_FIXED_HEADER_BYTES}`,
    );
  }
  const fault = findFixedHeaderFault(head);
  if (fault !== undefined) throw new NodeFormatError(fault);
  const headerLength = readHeaderLength(head);
  if (head.length < headerLength || totalBytes < headerLength) {
    throw new NodeFormatError(
      `the node ends at byte ${totalBytes}, inside its content type or refs; they end at byte ${headerLength}`,
    );
  }
  const typeEnd = NODE_FIXED_HEADER_BYTES + readU16(head, AT.contentTypeLength);
  const contentType = readContentType(head, typeEnd);
  const size = readSize(head);
  const contentBytes = totalBytes - headerLength;
  if (contentBytes < size) {
    throw new NodeFormatError(
      `${countOf(size - contentBytes, 'byte is', 'bytes are')} missing: the header says ${countOf(size, 'content byte')}`,
    );
  }
  if (contentBytes > size) {
    throw new NodeFormatError(
      `${countOf(contentBytes - size, 'byte trails', 'bytes trail')} the ${countOf(size, 'content byte')} the header says`,
    );
  }
  return { contentType, refs: head.subarray(typeEnd, headerLength), size, headerLength };
}

/** The first rule the fixed 24 bytes break, in the order of the fields. */
function findFixedHeaderFault(head: Uint8Array): string | undefined {
  if (head[0] !== SIGNATURE[0] || head[1] !== SIGNATURE[1]) return 'the signature is not 55 44';
  const version = readU16(head, AT.version);
  if (version !== NODE_FORMAT_VERSION)
    return `version ${version} is not known; write version ${NODE_FORMAT_VERSION}`;
  const flags = readU32(head, AT.flags);
  if (flags !== 0) return `flags are 0x${flags.toString(16)}; they must be 0`;
  if (readSize(head) > INTEGER_MAX) return sizeFault();
  const refCount = readU32(head, AT.refCount);
  if (refCount > NODE_REFS_MAX) return refCountFault(refCount);
  const typeLength = readU16(head, AT.contentTypeLength);
  if (typeLength < 1 || typeLength > CONTENT_TYPE_BYTES_MAX) return contentTypeLengthFault(typeLength);
  const reserved = readU16(head, AT.reserved);
  if (reserved !== 0) return `the reserved field is 0x${reserved.toString(16)}; it must be 0`;
  return undefined;
}

function readHeaderLength(head: Uint8Array): number {
  return (
    NODE_FIXED_HEADER_BYTES + readU16(head, AT.contentTypeLength) + readU32(head, AT.refCount) * HASH_BYTES
  );
}

const lastContentTypes: { readonly bytes: Uint8Array; readonly text: string }[] = [];

function readContentType(head: Uint8Array, end: number): string {
  const last = lastContentTypes[end - NODE_FIXED_HEADER_BYTES];
  if (last !== undefined && isSameAt(head, NODE_FIXED_HEADER_BYTES, last.bytes)) return last.text;
  const text = decodeContentType(head, end);
  // Nodes that come one after another have few content types, and making text takes long.
  if (text.length <= 128) {
    lastContentTypes[text.length] = {
      bytes: new Uint8Array(head.subarray(NODE_FIXED_HEADER_BYTES, end)),
      text,
    };
  }
  return text;
}

function isSameAt(head: Uint8Array, start: number, bytes: Uint8Array): boolean {
  for (let index = 0; index < bytes.length; index++) if (head[start + index] !== bytes[index]) return false;
  return true;
}

function decodeContentType(head: Uint8Array, end: number): string {
  let contentType = '';
  for (let offset = NODE_FIXED_HEADER_BYTES; offset < end; offset++) {
    const byte = head[offset] as number;
    if (byte < 0x20 || byte > 0x7e) {
      throw new NodeFormatError(contentTypeByteFault(byte, offset - NODE_FIXED_HEADER_BYTES));
    }
    contentType += String.fromCharCode(byte);
  }
  return contentType;
}

/** Exact up to 2^53 - 1; above that, some number above it. */
function readSize(head: Uint8Array): number {
  return readU32(head, AT.size) + readU32(head, AT.size + 4) * 2 ** 32;
}

function sizeFault(): string {
  return `the content size is not an integer from 0 to ${INTEGER_MAX}`;
}

function refCountFault(count: number): string {
  return `${count} refs are too many; a node has at most ${NODE_REFS_MAX}`;
}

function contentTypeLengthFault(length: number): string {
  return `the content type has ${length} bytes; it needs 1 to ${CONTENT_TYPE_BYTES_MAX}`;
}

function contentTypeByteFault(code: number, index: number): string {
  return `the content type has 0x${code.toString(16)} at position ${index}; only 0x20 to 0x7e are allowed`;
}
