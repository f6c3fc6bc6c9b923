/** Judges the bytes of one upload while they stream: length, then digest, then format (contract section 5). */
import type { Hash, NodeHeader } from '@holdfast/protocol';
import { NodeFormatError, NodeHeaderParser } from '@holdfast/protocol';
import type { UploadEvidence } from '../../core/model.ts';
import { IntegrityBuilder } from './block-integrity.ts';

type BadEvidence = Extract<UploadEvidence, { verdict: 'bad' }>;

/** Told in two streams of the same bytes: `read` in chunks of any size, `block` in whole blocks. */
export class ObjectJudge {
  readonly #hash: Hash;
  readonly #hasher = new Bun.CryptoHasher('sha256');
  readonly #header = new NodeHeaderParser();
  readonly #integrity = new IntegrityBuilder();
  #bytes = 0;

  constructor(hash: Hash) {
    this.#hash = hash;
  }

  get bytes(): number {
    return this.#bytes;
  }

  read(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    this.#hasher.update(chunk);
    this.#header.push(chunk);
  }

  block(block: Uint8Array): void {
    this.#integrity.push(block);
  }

  /** Call once, after the last byte. */
  judge(inlineBytesMax: number): UploadEvidence {
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
      integrity: this.#integrity.finish(),
      inline: this.#bytes <= inlineBytesMax,
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

export function tooLarge(nodeBytesMax: number): BadEvidence {
  return bad('NODE_TOO_LARGE', `the upload has more than ${nodeBytesMax} bytes, the most a node may have`);
}

function bad(code: BadEvidence['code'], message: string): BadEvidence {
  return { verdict: 'bad', code, message };
}
