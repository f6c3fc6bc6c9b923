/**
 * How fast bodies come. The runtime brings a body whole for a third of what its pieces cost, but says nothing until it is there: that is
 * only for bodies that are there in a moment.
 */

export class BodyPace {
  /** 0: nothing is known yet, or a body did not come in time */
  #bytesPerMs = 0;

  /** Whether a body of `bytes` should be complete before it is given up after `idleMs`. */
  comesAtOnce(bytes: number, idleMs: number): boolean {
    // A larger body is read in pieces, which go on to their reader; so is one that may take a tenth of the silence that is allowed.
    return bytes <= 8 * 1024 * 1024 && bytes <= this.#bytesPerMs * idleMs * 0.1;
  }

  /** A body came, whole or in pieces. */
  note(bytes: number, ms: number): void {
    // Smaller bodies tell more of the server than of the line.
    if (bytes < 64 * 1024) return;
    const latest = bytes / Math.max(1, ms);
    // The latest body counts a quarter.
    this.#bytesPerMs = this.#bytesPerMs === 0 ? latest : this.#bytesPerMs * 0.75 + latest * 0.25;
  }

  /** A body did not come whole: the next are read in pieces until those tell otherwise. */
  noteMissed(): void {
    this.#bytesPerMs = 0;
  }
}
