/** Limits the pieces of content that are read concurrently. */
import type { Space } from '../core/model.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import { releaseBytes } from '../runtime/release-bytes.ts';
import { FairQueue } from '../shares/fair-queue.ts';

export interface PieceSlot {
  readonly scratch: Uint8Array;
}

/** Bounds the pieces that are copied at once, each with its own memory. Others wait; Apps and their Spaces take turns. */
export class PieceSlots {
  readonly #count: number;
  #free: number;
  readonly #waiting = new FairQueue<() => void>();
  /** Reused, because new memory costs three times as much as the read: the system clears it page by page. */
  readonly #scratches: Uint8Array[] = [];

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  get isBusy(): boolean {
    return this.#free < this.#count;
  }

  /** `memory`: where the piece will stay. Undefined: the store brings the piece in memory of its own. */
  async run(
    space: Space,
    memory: Uint8Array | 'a scratch' | undefined,
    work: (memory: Uint8Array | undefined) => Promise<void>,
  ): Promise<void> {
    if (memory === 'a scratch') {
      const slot = await this.enter(space);
      await work(slot.scratch).finally(() => this.leave(slot));
      return;
    }
    await this.#take(space);
    await work(memory).finally(() => this.#give());
  }

  /** A slot with memory. The caller must leave it. */
  async enter(space: Space): Promise<PieceSlot> {
    await this.#take(space);
    return { scratch: this.#scratches.pop() ?? new Uint8Array(CONTENT_PIECE_BYTES) };
  }

  /** Call once, when nothing uses the slot's memory any more. */
  leave({ scratch }: PieceSlot): void {
    if (this.#scratches.length < 8) this.#scratches.push(scratch);
    else releaseBytes(scratch);
    this.#give();
  }

  async #take({ appId, spaceId }: Space): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(appId, spaceId, 1, resolve));
  }

  #give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
