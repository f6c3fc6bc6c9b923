/** Buffers of one block, used again, so that many parallel uploads do not churn memory. */
import { BLOCK_BYTES } from './block-integrity.ts';

const KEPT_MAX = 64;

export class BlockPool {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(BLOCK_BYTES);
  }

  /** The caller keeps no view of it. */
  give(block: Uint8Array): void {
    if (this.#free.length < KEPT_MAX) this.#free.push(block);
  }
}
