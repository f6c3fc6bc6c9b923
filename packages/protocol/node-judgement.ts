/** Judges a node's own bytes once their digest is known. However they came, by a single upload or in a pack, the order is the same. */
import type { RejectionCode } from './errors.ts';
import type { Hash } from './hash.ts';
import { NodeFormatError } from './node-codec.ts';
import type { Rejection } from './wire.ts';

export type NodeJudgement<T> =
  | { readonly node: T; readonly rejection?: undefined }
  | { readonly node?: undefined; readonly rejection: Rejection };

/** Checks the digest, then the format. `parse` throws NodeFormatError if the bytes are not a canonical node. */
export function judgeNodeBytes<T>(
  subject: { readonly hash: Hash; readonly digest: Hash; readonly byteCount: number },
  parse: () => T,
): NodeJudgement<T> {
  if (subject.digest !== subject.hash) {
    return reject(
      'NODE_DIGEST_MISMATCH',
      `the uploaded ${subject.byteCount} bytes have the digest ${subject.digest}`,
    );
  }
  try {
    return { node: parse() };
  } catch (error) {
    if (error instanceof NodeFormatError) return reject('INVALID_CANONICAL_NODE', error.message);
    throw error;
  }
}

export function reject(
  code: RejectionCode,
  message: string,
): { readonly node?: undefined; readonly rejection: Rejection } {
  return { rejection: { code, message } };
}
