/** Hashes gathered into requests of Bulk: what is asked for while one is on its way goes with the next. */
import { BULK_HASHES_MAX, type Hash } from '@holdfast/protocol';

export type Batch<Asked> = Map<Hash, readonly Asked[]>;

export interface GatheredOptions<Asked> {
  /** Sends one request for these hashes, each with those who asked for it. Never rejects. */
  readonly send: (batch: Batch<Asked>) => Promise<void>;
  /** A second request begins beside the first only for this many. */
  readonly besideMin: number;
  /** Whether more will be asked for by itself, so that a small request waits for it. Never when left out. */
  readonly isMoreComing?: (() => boolean) | undefined;
  /** Nothing is asked for or on its way. */
  readonly onIdle?: (() => void) | undefined;
}

export class Gathered<Asked> {
  readonly #options: GatheredOptions<Asked>;
  readonly #waiting: Batch<Asked> = new Map();
  #running = 0;
  #isFlushSoon = false;

  constructor(options: GatheredOptions<Asked>) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.#waiting.size === 0;
  }

  ask(hash: Hash, ...asked: readonly Asked[]): void {
    const others = this.#waiting.get(hash);
    this.#waiting.set(hash, others === undefined ? asked : [...others, ...asked]);
    this.flushSoon();
  }

  /** Sends what waits after this turn of the event loop: until then others may ask too. To be called too when nothing more comes. */
  flushSoon(): void {
    if (this.#isFlushSoon) return;
    this.#isFlushSoon = true;
    setTimeout(() => {
      this.#isFlushSoon = false;
      while (this.#mayBegin()) void this.#run(this.#take());
      if (this.isIdle) this.#options.onIdle?.();
    }, 0);
  }

  #mayBegin(): boolean {
    const { besideMin, isMoreComing } = this.#options;
    const { size } = this.#waiting;
    // A request of 256 does not wait for more.
    if (size === 0 || (size < 256 && isMoreComing?.() === true)) return false;
    return this.#running === 0 || (this.#running === 1 && size >= besideMin);
  }

  #take(): Batch<Asked> {
    const batch = new Map([...this.#waiting].slice(0, BULK_HASHES_MAX));
    for (const hash of batch.keys()) this.#waiting.delete(hash);
    return batch;
  }

  async #run(batch: Batch<Asked>): Promise<void> {
    this.#running += 1;
    await this.#options.send(batch);
    this.#running -= 1;
    this.flushSoon();
  }
}
