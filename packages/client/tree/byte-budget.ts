/** Bounds the bytes that are in memory at once, first come first served. */

export class ByteBudget {
  readonly #bytesMax: number;
  readonly #waiting: { readonly bytes: number; readonly admit: () => void }[] = [];
  #usedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Resolves when there is room for `bytes`; more than the whole budget is let in alone. Give them back with `release`. */
  acquire(bytes: number): Promise<void> {
    const wanted = this.#clamp(bytes);
    if (this.#waiting.length === 0 && this.#usedBytes + wanted <= this.#bytesMax) {
      this.#usedBytes += wanted;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push({ bytes: wanted, admit: resolve }));
  }

  release(bytes: number): void {
    this.#usedBytes -= this.#clamp(bytes);
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#usedBytes + next.bytes > this.#bytesMax) return;
      this.#waiting.shift();
      this.#usedBytes += next.bytes;
      next.admit();
    }
  }

  #clamp(bytes: number): number {
    return Math.min(bytes, this.#bytesMax);
  }
}
