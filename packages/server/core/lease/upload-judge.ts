/** Judges the bytes of one upload while they stream: length, then digest, then format (docs/api.md, leaseNode). */
import { type Hash, judgeNodeBytes, NodeHeaderParser } from '@holdfast/protocol';
import type { UploadEvidence } from '../model.ts';

/** PUTs of one upload generation that are received at once: one of them will do, a few may be repeats of broken ones. */
export const UPLOADS_OF_GENERATION_MAX = 4;
export const TOO_MANY_PUTS = `${UPLOADS_OF_GENERATION_MAX} PUTs to this upload URL are being received already: wait for them, or repeat the lease request`;

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
    const subject = { hash: this.#hash, digest: this.#hasher.digest('hex'), byteCount: this.#bytes };
    const { node: header, rejection } = judgeNodeBytes(subject, () => this.#header.finish(this.#bytes));
    if (rejection !== undefined) return bad(rejection.code, rejection.message);
    return {
      verdict: 'good',
      canonicalSize: this.#bytes,
      size: header.size,
      contentType: header.contentType,
      refs: new Uint8Array(header.refs),
      integrity: integrity(),
      inline,
    };
  }
}

/** The verdict on bytes beyond the limit, given without reading the rest. */
export function tooLarge(nodeBytesMax: number): BadEvidence {
  return bad('NODE_TOO_LARGE', `the upload has more than ${nodeBytesMax} bytes, the most a node may have`);
}

function bad(code: BadEvidence['code'], message: string): BadEvidence {
  return { verdict: 'bad', code, message };
}
