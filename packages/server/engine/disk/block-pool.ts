/** Buffers of one block that are used again, so that parallel uploads allocate little memory. */
import { BLOCK_BYTES } from './block-integrity.ts';

export class BlockPool {
  readonly #free: Uint8Array[] = [];

  /** Objects of an older format may have blocks of another size. */
  take(bytes = BLOCK_BYTES): Uint8Array {
    return (bytes === BLOCK_BYTES ? this.#free.pop() : undefined) ?? new Uint8Array(bytes);
  }

  /** The caller keeps no view of it. */
  give(block: Uint8Array): void {
    if (block.length === BLOCK_BYTES && this.#free.length < 64) this.#free.push(block);
  }
}
