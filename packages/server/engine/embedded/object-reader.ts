/** Reads one object, block by block, and lets no byte out before its block is proven. Closes the file when it ends. */
import type { Hash } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import { ContentDamaged, ContentLost } from '../../core/ports.ts';
import type { BlockIntegrity } from './block-integrity.ts';
import { storageError } from './failure.ts';
import type { OpenFile } from './files.ts';

/** what one read of a stream takes; a multiple of every block size in use */
const READ_BYTES = 1024 * 1024;

export class ObjectReader {
  readonly #file: OpenFile;
  readonly #integrity: BlockIntegrity;
  readonly #generation: Generation;

  constructor(file: OpenFile, integrity: BlockIntegrity, generation: Generation) {
    this.#file = file;
    this.#integrity = integrity;
    this.#generation = generation;
  }

  /** Canonical bytes [start, end) at once. */
  async readWhole(start: number, end: number): Promise<Uint8Array> {
    try {
      await this.#checkSize();
      const from = this.#blockStart(start);
      const blocks = await this.#readBlocks(from, this.#blockEnd(end));
      return blocks.subarray(start - from, end - from);
    } finally {
      await this.#file.close();
    }
  }

  /** Resolves when the first chunk is proven. */
  async stream(
    start: number,
    end: number,
    onBroken: (proof: ContentDamaged | ContentLost) => void,
  ): Promise<ReadableStream<Uint8Array>> {
    let position = this.#blockStart(start);
    const next = async (): Promise<Uint8Array> => {
      const from = position;
      position = Math.min(from + READ_BYTES, this.#blockEnd(end));
      const blocks = await this.#readBlocks(from, position);
      return blocks.subarray(Math.max(start - from, 0), Math.min(end, position) - from);
    };
    let first: Uint8Array | undefined;
    try {
      await this.#checkSize();
      first = await next();
    } catch (error) {
      await this.#file.close();
      throw error;
    }
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            controller.enqueue(first ?? (await next()));
            first = undefined;
            if (position < end) return;
            await this.#file.close();
            controller.close();
          } catch (error) {
            await this.#file.close();
            if (error instanceof ContentDamaged || error instanceof ContentLost) onBroken(error);
            controller.error(storageError(error, 'reading content'));
          }
        },
        cancel: () => this.#file.close(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Reads everything: length, every block, the digest. */
  async verify(hash: Hash): Promise<void> {
    try {
      await this.#checkSize();
      const hasher = new Bun.CryptoHasher('sha256');
      const { canonicalSize } = this.#integrity;
      for (let from = 0; from < canonicalSize; from += READ_BYTES) {
        hasher.update(await this.#readBlocks(from, Math.min(from + READ_BYTES, canonicalSize)));
      }
      if (hasher.digest('hex') !== hash) throw this.#damaged('does not have its digest');
    } finally {
      await this.#file.close();
    }
  }

  /** Read once more before it counts as proof: a bad cable or bad memory may have spoilt only the reading. */
  async #readBlocks(from: number, to: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(to - from);
    for (let attempt = 0; attempt < 2; attempt++) {
      const length = await this.#file.read(bytes, from);
      if (length === bytes.length && this.#integrity.isIntact(bytes, from)) return bytes;
    }
    throw this.#damaged(`does not match its checksum between bytes ${from} and ${to}`);
  }

  async #checkSize(): Promise<void> {
    const { canonicalSize } = this.#integrity;
    const size = await this.#file.size();
    if (size !== canonicalSize) throw this.#damaged(`has ${size} bytes instead of ${canonicalSize}`);
  }

  #damaged(how: string): ContentDamaged {
    return new ContentDamaged(`the object of generation ${this.#generation} ${how}`);
  }

  #blockStart(position: number): number {
    return position - (position % this.#integrity.blockBytes);
  }

  #blockEnd(position: number): number {
    const { blockBytes, canonicalSize } = this.#integrity;
    return Math.min(Math.ceil(position / blockBytes) * blockBytes, canonicalSize);
  }
}
