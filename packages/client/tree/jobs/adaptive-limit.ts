/**
 * How many requests run at once: twice as many per round trip until the first sign of load, then one more while answers come
 * quickly, half as many when the server says 429 or an answer is lost, a little fewer when answers become slow (slow start,
 * additive increase, multiplicative decrease, as TCP has them). Pure.
 */

export interface AdaptiveLimitOptions {
  readonly start: number;
  readonly max: number;
}

export class AdaptiveLimit {
  readonly #max: number;
  #limit: number;
  #fastestMs = Number.POSITIVE_INFINITY;
  #smoothedMs: number | undefined;
  /** no sign of load yet */
  #isStarting = true;
  /** Decreases that share one cause count once: no further one before this many answers have come. */
  #answersUntilDecrease = 0;

  constructor({ start, max }: AdaptiveLimitOptions) {
    this.#max = Math.max(1, max);
    this.#limit = Math.min(Math.max(1, start), this.#max);
  }

  /** at least 1 */
  get limit(): number {
    return Math.floor(this.#limit);
  }

  /** An answer came after `ms`. Only answers of one kind should be told: an upload takes longer than a question. */
  onAnswer(ms: number): void {
    this.#answersUntilDecrease = Math.max(0, this.#answersUntilDecrease - 1);
    this.#fastestMs = Math.min(this.#fastestMs, Math.max(1, ms));
    this.#smoothedMs = this.#smoothedMs === undefined ? ms : this.#smoothedMs + 0.2 * (ms - this.#smoothedMs);
    // Then requests queue up.
    const isSlow = this.#smoothedMs > 400 && this.#smoothedMs > 4 * this.#fastestMs;
    if (isSlow) this.#decrease(0.9);
    else this.#limit = Math.min(this.#max, this.#limit + (this.#isStarting ? 1 : 1 / this.#limit));
  }

  /** The server shed load, or an answer never came. */
  onOverload(): void {
    this.#decrease(0.5);
  }

  #decrease(factor: number): void {
    this.#isStarting = false;
    if (this.#answersUntilDecrease > 0) return;
    this.#answersUntilDecrease = this.limit;
    this.#limit = Math.max(1, this.#limit * factor);
  }
}
