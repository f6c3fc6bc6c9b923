/** Judges the bytes of one upload while they stream: length, then digest, then format (docs/api.md, leaseNode). */
import { type Hash, NodeFormatError, type NodeHeader, NodeHeaderParser } from '@holdfast/protocol';
import type { UploadEvidence } from './model.ts';

type BadEvidence = Extract<UploadEvidence, { verdict: 'bad' }>;

export class UploadJudge {
  readonly #hash: Hash;
  readonly #hasher = new Bun.CryptoHasher('sha256');
  readonly #header = new NodeHeaderParser();
  #bytes = 0;

  constructor(hash: Hash) {
    this.#hash = hash;
  }

  /** pushed so far */
  get bytes(): number {
    return this.#bytes;
  }

  /** Takes pieces of any size. */
  push(piece: Uint8Array): void {
    this.#bytes += piece.length;
    this.#hasher.update(piece);
    this.#header.push(piece);
  }

  /** Call once, after the last byte. `integrity` makes the integrity record of good bytes. */
  judge(integrity: () => Uint8Array, inline: boolean): UploadEvidence {
    const digest = this.#hasher.digest('hex');
    if (digest !== this.#hash) {
      return bad('NODE_DIGEST_MISMATCH', `the uploaded ${this.#bytes} bytes have the digest ${digest}`);
    }
    const header = this.#parseHeader();
    if (header instanceof NodeFormatError) return bad('INVALID_CANONICAL_NODE', header.message);
    return {
      verdict: 'good',
      canonicalSize: this.#bytes,
      size: header.size,
      contentType: header.contentType,
      refs: header.refs.slice(),
      integrity: integrity(),
      inline,
    };
  }

  #parseHeader(): NodeHeader | NodeFormatError {
    try {
      return this.#header.finish(this.#bytes);
    } catch (error) {
      if (error instanceof NodeFormatError) return error;
      throw error;
    }
  }
}

/** The verdict on bytes beyond the limit, given without reading the rest. */
export function tooLarge(nodeBytesMax: number): BadEvidence {
  return bad('NODE_TOO_LARGE', `the upload has more than ${nodeBytesMax} bytes, the most a node may have`);
}

function bad(code: BadEvidence['code'], message: string): BadEvidence {
  return { verdict: 'bad', code, message };
}
