/** Places for the pieces of content that are read at once. */
import type { Space } from '../core/model.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import { FairQueue } from '../shares/fair-queue.ts';

const SCRATCHES_KEPT_MAX = 8;

/** Bounds the pieces that are copied at once, each with memory of its own. Others wait, and Apps and their Spaces take turns. */
export class Lanes {
  readonly #count: number;
  #free: number;
  readonly #waiting = new FairQueue<() => void>();
  /** Kept, because new memory costs three times as much as the reading: the system clears it page by page. */
  readonly #scratches: Uint8Array[] = [];

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  get isBusy(): boolean {
    return this.#free < this.#count;
  }

  /** `memory`: where the piece will stay; without it the lane has some. */
  async run(
    { appId, spaceId }: Space,
    memory: Uint8Array | undefined,
    work: (scratch: Uint8Array) => Promise<void>,
  ): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(appId, spaceId, 1, resolve));
    const scratch = memory ?? this.#scratches.pop() ?? new Uint8Array(CONTENT_PIECE_BYTES);
    try {
      await work(scratch);
    } finally {
      const isOwn = memory === undefined;
      if (isOwn && this.#scratches.length < SCRATCHES_KEPT_MAX) this.#scratches.push(scratch);
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
