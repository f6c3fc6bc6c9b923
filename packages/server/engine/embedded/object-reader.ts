/** Reads one object, block by block, and lets no byte out before its block is proven. Closes the file when it ends. */
import type { Hash } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import { ContentDamaged } from '../../core/ports.ts';
import type { BlockIntegrity } from './block-integrity.ts';
import type { BlockPool } from './block-pool.ts';
import type { OpenFile } from './files.ts';
import { ReadPace } from './read-pace.ts';

type Use = (bytes: Uint8Array, position: number) => void;

interface ReaderOptions {
  readonly file: OpenFile;
  readonly integrity: BlockIntegrity;
  readonly generation: Generation;
  readonly pool: BlockPool;
}

export class ObjectReader {
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** Canonical bytes [start, end), in memory. */
  async readBytes(start: number, end: number): Promise<Uint8Array> {
    const out = new Uint8Array(end - start);
    await this.#prove(start, end, (bytes, position) => {
      const from = Math.max(start - position, 0);
      out.set(bytes.subarray(from, end - position), position + from - start);
    });
    return out;
  }

  /** Proves every block of [start, end) and keeps nothing. */
  async proveRange(start: number, end: number): Promise<void> {
    await this.#prove(start, end, () => undefined);
  }

  /** Reads everything: length, every block, the digest. */
  async verify(hash: Hash): Promise<void> {
    const hasher = new Bun.CryptoHasher('sha256');
    await this.#prove(0, this.#options.integrity.canonicalSize, (bytes) => hasher.update(bytes));
    if (hasher.digest('hex') !== hash) throw this.#damaged('does not have its digest');
  }

  async #prove(start: number, end: number, use: Use): Promise<void> {
    const { file, integrity, pool } = this.#options;
    const { blockBytes, canonicalSize } = integrity;
    const pace = new ReadPace(file);
    const buffer = pool.take(blockBytes);
    try {
      this.#checkSize(file.sizeNow());
      for (let position = start - (start % blockBytes); position < end; position += blockBytes) {
        const block = buffer.subarray(0, Math.min(blockBytes, canonicalSize - position));
        // Awaiting only what is not there yet: a warm file is proven without leaving this turn.
        const reading = pace.read(block, position);
        const length = typeof reading === 'number' ? reading : await reading;
        if (length !== block.length || !integrity.isIntact(block, position)) {
          await this.#readAgain(block, position);
        }
        use(block, position);
      }
    } finally {
      pool.give(buffer);
      file.closeNow();
    }
  }

  /** Read once more before it counts as proof: a bad cable or bad memory may have spoilt only the reading. */
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
