/** Node digests: lowercase SHA-256 hex on the wire, 32 raw bytes in canonical nodes and in stores. */

/** 64 lowercase hexadecimal characters. */
export type Hash = string;

export const HASH_BYTES = 32;

const HASH_PATTERN = /^[0-9a-f]{64}$/;

const HEX_OF_BYTE: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
);

const NO_NIBBLE = 0x100;
/** Character code to the value of a lowercase hexadecimal digit. */
const NIBBLES = new Uint16Array(128).fill(NO_NIBBLE);
for (let value = 0; value < 16; value++) NIBBLES[value.toString(16).charCodeAt(0)] = value;

/** Engines that have it make hex several times faster than any script can. */
const nativeToHex = (Uint8Array.prototype as { toHex?: (this: Uint8Array) => string }).toHex;

export function isHash(value: unknown): value is Hash {
  return typeof value === 'string' && HASH_PATTERN.test(value);
}

/** Throws RangeError unless `hash` is a hash. */
export function hashToBytes(hash: Hash): Uint8Array {
  const bytes = new Uint8Array(HASH_BYTES);
  writeHash(hash, bytes, 0);
  return bytes;
}

/** Throws RangeError unless `bytes` is 32 bytes long. */
export function bytesToHash(bytes: Uint8Array): Hash {
  if (bytes.length !== HASH_BYTES)
    throw new RangeError(`a digest has ${HASH_BYTES} bytes, not ${bytes.length}`);
  return toHex(bytes);
}

/** Splits ordered raw refs, 32 bytes each. Throws RangeError on a partial ref. */
export function refsToHashes(rawRefs: Uint8Array): Hash[] {
  if (rawRefs.length % HASH_BYTES !== 0) {
    throw new RangeError(`refs are ${HASH_BYTES} bytes each; ${rawRefs.length} bytes hold a partial one`);
  }
  if (rawRefs.length === 0) return [];
  const hex = toHex(rawRefs);
  const hashes: Hash[] = [];
  for (let start = 0; start < hex.length; start += 2 * HASH_BYTES) {
    hashes.push(hex.slice(start, start + 2 * HASH_BYTES));
  }
  return hashes;
}

/** Joins hashes to raw refs, 32 bytes each; keeps order and duplicates. @throws RangeError for an invalid hash */
export function hashesToRefs(hashes: readonly Hash[]): Uint8Array {
  const refs = new Uint8Array(hashes.length * HASH_BYTES);
  for (let index = 0; index < hashes.length; index++)
    writeHash(hashes[index] as Hash, refs, index * HASH_BYTES);
  return refs;
}

function toHex(bytes: Uint8Array): string {
  if (nativeToHex !== undefined) return nativeToHex.call(bytes);
  let hex = '';
  for (let index = 0; index < bytes.length; index++) hex += HEX_OF_BYTE[bytes[index] as number];
  return hex;
}

/** Writes the 32 raw bytes of `hash` from `offset` on. Throws RangeError unless it is a hash. */
export function writeHash(hash: Hash, target: Uint8Array, offset: number): void {
  let seen = hash.length === 2 * HASH_BYTES ? 0 : NO_NIBBLE;
  for (let index = 0; index < HASH_BYTES; index++) {
    const high = NIBBLES[hash.charCodeAt(2 * index)] ?? NO_NIBBLE;
    const low = NIBBLES[hash.charCodeAt(2 * index + 1)] ?? NO_NIBBLE;
    seen |= high | low;
    target[offset + index] = (high << 4) | low;
  }
  if (seen > 0xf) throw new RangeError('a hash is 64 lowercase hexadecimal characters');
}
