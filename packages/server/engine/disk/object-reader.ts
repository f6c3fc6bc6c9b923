/** Reads one object, block by block, and lets no byte out before its block is proven. Closes the file when it ends. */
import type { Hash } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import { ContentDamaged, type ContentLost } from '../../core/ports.ts';
import type { BlockIntegrity } from './block-integrity.ts';
import type { BlockPool } from './block-pool.ts';
import type { OpenFile } from './files.ts';
import { ReadPace } from './read-pace.ts';

/** bytes proven at a time for a stream: all that it holds in memory */
const WINDOW_BYTES = 1024 * 1024;

type Use = (bytes: Uint8Array, position: number) => void | Promise<void>;

interface ReaderOptions {
  readonly file: OpenFile;
  readonly integrity: BlockIntegrity;
  readonly generation: Generation;
  readonly pool: BlockPool;
}

export class ObjectReader {
  readonly #options: ReaderOptions;
  readonly #pace: ReadPace;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#pace = new ReadPace(options.file);
  }

  /** Canonical bytes [start, end), in memory. */
  async readBytes(start: number, end: number): Promise<Uint8Array> {
    try {
      return await this.#window(start, end);
    } finally {
      this.#options.file.closeNow();
    }
  }

  /** Proves every block of [start, end) and keeps nothing. The caller closes. */
  async proveRange(start: number, end: number): Promise<void> {
    await this.#prove(start, end, () => undefined);
  }

  /** Proves [start, end) and gives it to `write`, block by block, in order. The caller closes. */
  async copyRange(start: number, end: number, write: (bytes: Uint8Array) => Promise<void>): Promise<void> {
    await this.#prove(start, end, (bytes, position) =>
      write(bytes.subarray(Math.max(start - position, 0), end - position)),
    );
  }

  close(): void {
    this.#options.file.closeNow();
  }

  /**
   * The same bytes, a window at a time. Resolves once all of it is proven, so that damage at rest is met before the first
   * byte; each window is proven again when it is read to be sent. Damage met then errors the stream, is told to `onBroken`.
   */
  async openStream(
    start: number,
    end: number,
    onBroken: (proof: ContentDamaged | ContentLost) => void,
  ): Promise<ReadableStream<Uint8Array>> {
    const { file } = this.#options;
    let position = start;
    const next = async (): Promise<Uint8Array> => {
      try {
        const bytes = await this.#window(position, Math.min(position + WINDOW_BYTES, end));
        position += bytes.length;
        if (position >= end) file.closeNow();
        return bytes;
      } catch (error) {
        file.closeNow();
        throw error;
      }
    };
    try {
      await this.#prove(start, end, () => undefined);
    } catch (error) {
      file.closeNow();
      throw error;
    }
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            controller.enqueue(await next());
          } catch (error) {
            if (error instanceof ContentDamaged) onBroken(error);
            throw error;
          }
          if (position >= end) controller.close();
        },
        cancel: () => file.closeNow(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Reads everything: length, every block, the digest. */
  async verify(hash: Hash): Promise<void> {
    const hasher = new Bun.CryptoHasher('sha256');
    try {
      await this.#prove(0, this.#options.integrity.canonicalSize, (bytes) => {
        hasher.update(bytes);
      });
    } finally {
      this.#options.file.closeNow();
    }
    if (hasher.digest('hex') !== hash) throw this.#damaged('does not have its digest');
  }

  async #window(start: number, end: number): Promise<Uint8Array> {
    const out = new Uint8Array(end - start);
    await this.#prove(start, end, (bytes, position) => {
      const from = Math.max(start - position, 0);
      out.set(bytes.subarray(from, end - position), position + from - start);
    });
    return out;
  }

  async #prove(start: number, end: number, use: Use): Promise<void> {
    const { file, integrity, pool } = this.#options;
    const { blockBytes, canonicalSize } = integrity;
    const buffer = pool.take(blockBytes);
    try {
      this.#checkSize(file.sizeNow());
      for (let position = start - (start % blockBytes); position < end; position += blockBytes) {
        const block = buffer.subarray(0, Math.min(blockBytes, canonicalSize - position));
        // Awaiting only what is not there yet: a warm file is proven without leaving this turn.
        const reading = this.#pace.read(block, position);
        const length = typeof reading === 'number' ? reading : await reading;
        if (length !== block.length || !integrity.isIntact(block, position)) {
          await this.#readAgain(block, position);
        }
        const using = use(block, position);
        if (using !== undefined) await using;
      }
    } finally {
      pool.give(buffer);
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
