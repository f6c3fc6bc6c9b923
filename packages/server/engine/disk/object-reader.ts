/** Reads one object. No byte is returned before its block is proven. The caller closes the file. */
import type { Hash } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import { CONTENT_PIECE_BYTES } from '../../core/ports.ts';
import { ContentDamaged } from '../../core/store-failure.ts';
import { releaseBytes } from '../../runtime/release-bytes.ts';
import type { BlockIntegrity } from './block-integrity.ts';
import type { OpenFile } from './files.ts';

interface ReaderOptions {
  readonly file: OpenFile;
  readonly integrity: BlockIntegrity;
  readonly generation: Generation;
}

export class ObjectReader {
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** Canonical bytes [start, end). Reads all their blocks, into `scratch` if they fit. */
  async read(start: number, end: number, scratch?: Uint8Array): Promise<Uint8Array> {
    const { file, integrity } = this.#options;
    const { blockBytes, canonicalSize } = integrity;
    this.#checkSize(file.sizeNow());
    const from = start - (start % blockBytes);
    const to = Math.min(Math.ceil(end / blockBytes) * blockBytes, canonicalSize);
    const isEnough = scratch !== undefined && scratch.length >= to - from;
    // The memory is not cleared first, because every byte of it is read and proven before it is used.
    const bytes = isEnough
      ? scratch.subarray(0, to - from)
      : new Uint8Array(Buffer.allocUnsafeSlow(to - from).buffer);
    const length = await file.read(bytes, from);
    for (let position = from; position < to; position += blockBytes) {
      const at = position - from;
      const block = bytes.subarray(at, at + blockBytes);
      const isRead = at + block.length <= length;
      if (!isRead || !integrity.isIntact(block, position)) await this.#readAgain(block, position);
    }
    return bytes.subarray(start - from, end - from);
  }

  /** Proves every block of [start, end), piece by piece, and hands the bytes to `use`, which must not keep them. */
  async prove(start: number, end: number, use: (bytes: Uint8Array) => void = () => undefined): Promise<void> {
    const scratch = new Uint8Array(Math.min(CONTENT_PIECE_BYTES, this.#options.integrity.canonicalSize));
    try {
      // A piece that crossed a boundary would have one block more than there is room for, and so take memory of its own.
      for (let from = start, to = from; from < end; from = to) {
        to = Math.min(from - (from % CONTENT_PIECE_BYTES) + CONTENT_PIECE_BYTES, end);
        use(await this.read(from, to, scratch));
      }
    } finally {
      releaseBytes(scratch);
    }
  }

  /** Reads everything: length, every block, the digest. */
  async verify(hash: Hash): Promise<void> {
    const hasher = new Bun.CryptoHasher('sha256');
    await this.prove(0, this.#options.integrity.canonicalSize, (bytes) => void hasher.update(bytes));
    if (hasher.digest('hex') !== hash) throw this.#damaged('does not have its digest');
  }

  close(): void {
    this.#options.file.closeNow();
  }

  /** Reads a block once more before a mismatch counts as proof: bad memory may have damaged only the first read. */
  async #readAgain(block: Uint8Array, position: number): Promise<void> {
    const { file, integrity } = this.#options;
    const length = await file.read(block, position);
    if (length === block.length && integrity.isIntact(block, position)) return;
    this.#checkSize(file.sizeNow());
    throw this.#damaged(
      `does not match its checksum between bytes ${position} and ${position + block.length}`,
    );
  }

  #checkSize(size: number): void {
    const { canonicalSize } = this.#options.integrity;
    if (size !== canonicalSize) throw this.#damaged(`has ${size} bytes instead of ${canonicalSize}`);
  }

  #damaged(how: string): ContentDamaged {
    return new ContentDamaged(`the object of generation ${this.#options.generation} ${how}`);
  }
}
