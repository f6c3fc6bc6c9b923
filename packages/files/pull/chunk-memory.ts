/** Memory for the chunks of a pull: once a chunk is written, its memory holds a next one. */
import { releaseMemory } from '../resident-memory.ts';

export class ChunkMemory {
  /** the smallest first */
  readonly #free: ArrayBuffer[] = [];
  readonly #own = new WeakSet<ArrayBufferLike>();

  /** `length` bytes of any content. */
  take(length: number): Uint8Array<ArrayBuffer> {
    // Smaller content mostly comes with others in one answer.
    if (length < 512 * 1024) return new Uint8Array(length);
    const at = this.#free.findIndex(({ byteLength }) => byteLength >= length);
    const [memory = new ArrayBuffer(length)] = at === -1 ? [] : this.#free.splice(at, 1);
    this.#own.add(memory);
    return new Uint8Array(memory, 0, length);
  }

  /** Keeps the largest pieces of memory that `take` gave. All other memory is released, if nothing else lies in it. */
  give(bytes: Uint8Array): void {
    const { buffer } = bytes;
    if (!(buffer instanceof ArrayBuffer) || !this.#own.has(buffer)) {
      releaseMemory(bytes);
      return;
    }
    if (this.#free.includes(buffer)) return;
    this.#free.push(buffer);
    this.#free.sort((one, other) => one.byteLength - other.byteLength);
    const surplus = this.#free.length > 6 ? this.#free.shift() : undefined;
    if (surplus !== undefined) releaseMemory(new Uint8Array(surplus));
  }
}
