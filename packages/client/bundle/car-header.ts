/** The header of a CAR version 1: `{roots: [CID…], version: 1}`. dag-cbor has one encoding for it, so reading is comparing. */
import { concatBytes, type Hash } from '@holdfast/protocol';
import { BundleError, CID_BYTES, encodeCid, parseCid } from './cid.ts';
import { encodeVarint } from './varint.ts';

export const BUNDLE_ROOTS_MAX = 1_000;

const CBOR = { mapOfTwo: 0xa2, array: 0x80 } as const;
/** `"roots"` and `"version"`, each a text string behind its length. */
const KEY_ROOTS = Uint8Array.of(0x65, 0x72, 0x6f, 0x6f, 0x74, 0x73);
const KEY_VERSION = Uint8Array.of(0x67, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e);
const VERSION = 1;
/** Tag 42 around a byte string of the CID behind a zero byte. */
const LINK_PREFIX = Uint8Array.of(0xd8, 0x2a, 0x58, CID_BYTES + 1, 0x00);
/** The beginning of every CAR of version 2, behind its length. */
const VERSION_2 = Uint8Array.of(0xa1, ...KEY_VERSION, 0x02);

/** The size limit of the header without its length. */
export const CAR_HEADER_BYTES_MAX =
  1 + KEY_ROOTS.length + 3 + BUNDLE_ROOTS_MAX * (LINK_PREFIX.length + CID_BYTES) + KEY_VERSION.length + 1;

/** The header with its length before it. Throws BundleError unless there are 1 to BUNDLE_ROOTS_MAX roots. */
export function encodeCarHeader(roots: readonly Hash[]): Uint8Array {
  if (roots.length < 1 || roots.length > BUNDLE_ROOTS_MAX) {
    throw new BundleError(
      `a bundle has 1 to ${BUNDLE_ROOTS_MAX} roots, not ${roots.length}; make several bundles`,
    );
  }
  const links = roots.flatMap((root) => [LINK_PREFIX, encodeCid(root)]);
  const body = concatBytes([
    Uint8Array.of(CBOR.mapOfTwo),
    KEY_ROOTS,
    encodeArrayHead(roots.length),
    ...links,
    KEY_VERSION,
    Uint8Array.of(VERSION),
  ]);
  return concatBytes([encodeVarint(body.length), body]);
}

/** The roots. `header` is without its length. Throws BundleError. */
export function parseCarHeader(header: Uint8Array): Hash[] {
  if (startsWith(header, 0, VERSION_2)) {
    throw new BundleError('the file is a CAR of version 2; convert it to version 1 and import that');
  }
  let offset = expectBytes(header, 0, Uint8Array.of(CBOR.mapOfTwo, ...KEY_ROOTS));
  const array = readArrayHead(header, offset);
  offset = array.end;
  if (array.length > BUNDLE_ROOTS_MAX) {
    throw new BundleError(
      `the bundle has ${array.length} roots, more than ${BUNDLE_ROOTS_MAX}; split it into several`,
    );
  }
  const roots: Hash[] = [];
  for (let index = 0; index < array.length; index += 1) {
    offset = expectLink(header, offset, index);
    roots.push(parseCid(header.subarray(offset, offset + CID_BYTES), `root ${index + 1}`));
    offset += CID_BYTES;
  }
  offset = expectBytes(header, offset, KEY_VERSION);
  const version = header[offset];
  if (version !== VERSION)
    throw new BundleError(`the CAR version ${version ?? ''} is not 1; convert the file`);
  if (offset + 1 !== header.length) throw malformed();
  if (roots.length === 0) throw new BundleError('the bundle names no roots; make it again with at least one');
  return roots;
}

function expectLink(header: Uint8Array, offset: number, index: number): number {
  if (startsWith(header, offset, LINK_PREFIX)) return offset + LINK_PREFIX.length;
  // Tag 42 over a byte string of another length is a CID of another kind: the message of parseCid names it.
  if (startsWith(header, offset, LINK_PREFIX.subarray(0, 3)) && header[offset + 4] === 0) {
    const length = header[offset + 3] ?? 0;
    parseCid(header.subarray(offset + 5, offset + 4 + length), `root ${index + 1}`);
  }
  throw malformed();
}

function encodeArrayHead(length: number): Uint8Array {
  if (length < 24) return Uint8Array.of(CBOR.array | length);
  if (length < 256) return Uint8Array.of(CBOR.array | 24, length);
  return Uint8Array.of(CBOR.array | 25, length >>> 8, length & 0xff);
}

/** Arrays of up to 65,535 in their one shortest form. */
function readArrayHead(header: Uint8Array, offset: number): { length: number; end: number } {
  const head = header[offset] ?? 0;
  if (head >= CBOR.array && head < (CBOR.array | 24)) return { length: head & 31, end: offset + 1 };
  const [first, second] = [header[offset + 1] ?? 0, header[offset + 2] ?? 0];
  if (head === (CBOR.array | 24) && first >= 24) return { length: first, end: offset + 2 };
  if (head === (CBOR.array | 25) && first > 0) return { length: first * 256 + second, end: offset + 3 };
  throw malformed();
}

function expectBytes(header: Uint8Array, offset: number, expected: Uint8Array): number {
  if (!startsWith(header, offset, expected)) throw malformed();
  return offset + expected.length;
}

function startsWith(bytes: Uint8Array, offset: number, expected: Uint8Array): boolean {
  return expected.every((byte, index) => bytes[offset + index] === byte);
}

function malformed(): BundleError {
  return new BundleError(
    'the file does not begin with the header of a CAR version 1; check that it is a bundle and complete',
  );
}
