/** Memory of nodes, used again and again. Left to the garbage collector, buffers pile up faster than it frees them. */
import { CHUNK_BYTES_MAX } from '@holdfast/client/push';

/** Buffers come in a few sizes, so that most fit a next node. */
const SIZES: readonly number[] = [
  8 * 1024,
  32 * 1024,
  136 * 1024,
  264 * 1024,
  512 * 1024,
  1024 * 1024,
  2 * 1024 * 1024,
  CHUNK_BYTES_MAX + 4096,
];

class BufferPool {
  readonly #free = new Map<number, ArrayBuffer[]>();
  /** Only these: others come back too, and small buffers of Node share one memory. */
  readonly #own = new WeakSet<ArrayBuffer>();

  /** `length` bytes of any content. */
  take(length: number): Uint8Array<ArrayBuffer> {
    const size = SIZES.find((one) => one >= length);
    // Smaller buffers are cheap to make and quick to go.
    if (size === undefined || length < 2 * 1024) return new Uint8Array(length);
    const memory = this.#free.get(size)?.pop() ?? new ArrayBuffer(size);
    this.#own.add(memory);
    return new Uint8Array(memory, 0, length);
  }

  /** Takes back what `take` gave; nothing may look at it any more. */
  give(bytes: Uint8Array): void {
    const { buffer } = bytes;
    if (!(buffer instanceof ArrayBuffer) || !this.#own.has(buffer)) return;
    const free = this.#free.get(buffer.byteLength) ?? [];
    this.#free.set(buffer.byteLength, free);
    if (free.length < 8) free.push(buffer);
  }
}

/** Reading and sending share one pool: the memory that a chunk was hashed in later holds the chunk that is sent. */
export const chunkMemory = new BufferPool();
