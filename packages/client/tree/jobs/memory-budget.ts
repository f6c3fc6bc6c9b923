/**
 * Bounds the bytes that one job holds in memory at once, first come first served.
 *
 * One rule keeps a job from a deadlock: work that holds memory never asks for more, and neither does a part of it. Work that holds
 * memory can then always finish and give it back, and the next in line goes on. So work whose parts need memory of their own gives
 * its own back first. `hold` throws when the rule is broken, even if there is room.
 */
import { Semaphore } from '../../semaphore.ts';

export class MemoryBudget {
  readonly #room: Semaphore;

  constructor(bytesMax: number) {
    this.#room = new Semaphore(bytesMax);
  }

  /** Does `work` when there is room; too much goes alone. Throws MemoryOrderError if `whole`, what it is part of, still holds memory. */
  async hold<T>(
    bytes: number,
    whole: HeldMemory | undefined,
    work: (held: HeldMemory) => Promise<T>,
  ): Promise<T> {
    if (whole?.isAnyHeld() === true) throw new MemoryOrderError();
    const held = new HeldMemory(whole, await this.#room.take(bytes));
    try {
      return await work(held);
    } finally {
      held.release();
    }
  }
}

/** Code asked for memory for a part of work that still holds memory. The part could wait for the work that waits for it. */
export class MemoryOrderError extends Error {
  override readonly name = 'MemoryOrderError';

  constructor() {
    super('work that holds memory asked for more; it must give back what it holds first');
  }
}

/** Memory that one piece of work holds, or has held. */
export class HeldMemory {
  readonly #whole: HeldMemory | undefined;
  readonly #onRelease: () => void;
  #isHeld = true;

  constructor(whole: HeldMemory | undefined, onRelease: () => void) {
    this.#whole = whole;
    this.#onRelease = onRelease;
  }

  /** Gives the memory back before the work is done; parts of the work may then hold some. Again does nothing. */
  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#onRelease();
  }

  /** Whether this, or any work that this is part of, holds memory. */
  isAnyHeld(): boolean {
    return this.#isHeld || this.#whole?.isAnyHeld() === true;
  }
}
