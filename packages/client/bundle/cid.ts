/** The one kind of CID a bundle holds: version 1, codec raw, SHA-256 of the canonical bytes. */

import { bytesToHash, HASH_BYTES, type Hash, hashToBytes } from '@holdfast/protocol';
import { checkHash } from '../arguments.ts';
import { VarintParser } from './varint.ts';

/** Bytes that are no bundle this API can take. `message` says what, where, and what to do; it never holds a token. */
export class BundleError extends Error {
  override readonly name = 'BundleError';
}

const CID = { version: 1, raw: 0x55, sha256: 0x12 } as const;
const PREFIX = Uint8Array.of(CID.version, CID.raw, CID.sha256, HASH_BYTES);

export const CID_BYTES = PREFIX.length + HASH_BYTES;

/** Names of codecs a person may meet in files of other tools. */
const CODEC_NAMES: ReadonlyMap<number, string> = new Map([
  [0x51, 'cbor'],
  [0x70, 'dag-pb'],
  [0x71, 'dag-cbor'],
  [0x72, 'libp2p-key'],
  [0x78, 'git-raw'],
  [0x0129, 'dag-json'],
  [0x0200, 'json'],
]);

export function encodeCid(hash: Hash): Uint8Array {
  const cid = new Uint8Array(CID_BYTES);
  cid.set(PREFIX);
  cid.set(hashToBytes(hash), PREFIX.length);
  return cid;
}

/** The CID as people write it: base32 without padding, `bafkrei…`. */
export function formatCid(hash: Hash): string {
  checkHash({ name: 'formatCid', requestOperation: 'readNodes' }, hash);
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
  let text = 'b';
  let bits = 0;
  let held = 0;
  for (const byte of encodeCid(hash)) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(held >>> (bits - 5)) & 31];
    held &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + alphabet[(held << (5 - bits)) & 31];
}

/**
 * Reads the CID that `bytes` begin with. `where` names its place in messages. Throws BundleError for every other kind of
 * CID, naming what it is.
 */
export function parseCid(bytes: Uint8Array, where: string): Hash {
  if (isRawSha256(bytes)) return bytesToHash(bytes.subarray(PREFIX.length, CID_BYTES));
  throw new BundleError(`${where}: ${describeOther(bytes)}; a bundle names nodes by CIDv1, raw, sha2-256`);
}

function isRawSha256(bytes: Uint8Array): boolean {
  return bytes.length >= CID_BYTES && PREFIX.every((byte, index) => bytes[index] === byte);
}

function describeOther(bytes: Uint8Array): string {
  if (bytes[0] === CID.sha256 && bytes[1] === HASH_BYTES) return 'the CID is of version 0 (dag-pb)';
  const values: number[] = [];
  let parser = new VarintParser();
  try {
    for (const byte of bytes) {
      const value = parser.push(byte);
      if (value === undefined) continue;
      parser = new VarintParser();
      if (values.push(value) === 4) break;
    }
  } catch {
    return 'the CID is malformed';
  }
  const [version, codec, hashFunction, digestLength] = values;
  if (version === undefined) return 'the CID is cut off';
  if (version !== CID.version) return `the CID is of version ${version}`;
  if (codec === undefined || hashFunction === undefined || digestLength === undefined)
    return 'the CID is cut off';
  if (codec !== CID.raw) {
    return `the CID has the codec ${CODEC_NAMES.get(codec) ?? 'unknown'} (0x${codec.toString(16)})`;
  }
  if (hashFunction !== CID.sha256) return `the CID has the hash function 0x${hashFunction.toString(16)}`;
  if (digestLength !== HASH_BYTES) return `the CID has a digest of ${digestLength} bytes`;
  return 'the CID is cut off';
}
