/**
 * The last values that were kept, in one block of memory. A block for each of them costs the process three times its bytes: what is
 * dropped waits for the collector, and the allocator keeps its pages.
 */

/** Of an entry, beside its value. */
const ENTRY_BYTES = 256;

interface Place {
  readonly start: number;
  readonly length: number;
}

export class KeptBytes {
  readonly #bytesMax: number;
  #block: Uint8Array | undefined;
  /** where the next value begins */
  #at = 0;
  /** in the order of the block, from `#at` on: the oldest is first */
  readonly #places = new Map<string, Place>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** A copy: the block is written over while an answer is sent. */
  find(key: string): Uint8Array | undefined {
    const place = this.#places.get(key);
    return place && new Uint8Array(this.#blockOf().subarray(place.start, place.start + place.length));
  }

  /** Copies `value`, in place of the oldest. Of a key that is there nothing changes. */
  keep(key: string, value: Uint8Array): void {
    const room = value.length + ENTRY_BYTES;
    if (room > this.#bytesMax || this.#places.has(key)) return;
    if (this.#at + room > this.#bytesMax) {
      this.#dropUntil(this.#bytesMax);
      this.#at = 0;
    }
    this.#dropUntil(this.#at + room);
    this.#blockOf().set(value, this.#at);
    this.#places.set(key, { start: this.#at, length: value.length });
    this.#at += room;
  }

  /** Drops what begins between `#at` and `end`. */
  #dropUntil(end: number): void {
    for (const [key, { start }] of this.#places) {
      if (start < this.#at || start >= end) return;
      this.#places.delete(key);
    }
  }

  #blockOf(): Uint8Array {
    this.#block ??= new Uint8Array(this.#bytesMax);
    return this.#block;
  }
}
