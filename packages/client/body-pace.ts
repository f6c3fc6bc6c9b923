/**
 * How fast bodies come. The runtime brings a body whole for a third of what its pieces cost, but says nothing until it is there: that is
 * only for bodies that are there in a moment.
 */

/** A share of the silence that is allowed between pieces: a body that is expected to take longer is read in pieces. */
const EXPECTED_SHARE_MAX = 0.1;
/** A larger body is read in pieces, which go on to their reader. */
const WHOLE_BYTES_MAX = 8 * 1024 * 1024;
/** Smaller bodies tell more of the time that any answer takes than of the line. */
const MEASURED_BYTES_MIN = 64 * 1024;
/** How much the latest body counts. */
const LATEST_SHARE = 0.25;

/** The pace of the bodies of one client. */
export class BodyPace {
  /** 0: nothing is known yet, or a body did not come in time */
  #bytesPerMs = 0;

  /** Whether a body of `bytes` should be complete before it is given up after `idleMs`. */
  comesAtOnce(bytes: number, idleMs: number): boolean {
    return bytes <= WHOLE_BYTES_MAX && bytes <= this.#bytesPerMs * idleMs * EXPECTED_SHARE_MAX;
  }

  /** A body came, whole or in pieces. */
  note(bytes: number, ms: number): void {
    if (bytes < MEASURED_BYTES_MIN) return;
    const latest = bytes / Math.max(1, ms);
    this.#bytesPerMs =
      this.#bytesPerMs === 0 ? latest : this.#bytesPerMs * (1 - LATEST_SHARE) + latest * LATEST_SHARE;
  }

  /** A body did not come whole: the next are read in pieces until those tell otherwise. */
  noteMissed(): void {
    this.#bytesPerMs = 0;
  }
}
