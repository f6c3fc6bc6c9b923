/** A bound on the rate of copying, so that a server on the same disk and cores is hardly slower meanwhile. */
export interface PaceLimits {
  readonly bytesPerSecond: number;
  /** what may be copied at once: a backup of what changed since yesterday is often no more */
  readonly burstBytes: number;
}

const MIB = 1024 * 1024;
/** Pages are read and hashed one by one. */
export const PAGES_PACE: PaceLimits = { bytesPerSecond: 32 * MIB, burstBytes: 4 * MIB };
export const OBJECTS_PACE: PaceLimits = { bytesPerSecond: 96 * MIB, burstBytes: 16 * MIB };

export class Pace {
  readonly #limits: PaceLimits;
  #copied = 0;
  /** ms of the monotonic clock until which what was copied fills the rate */
  #filledUntil = 0;

  constructor(limits: PaceLimits) {
    this.#limits = limits;
  }

  get copiedBytes(): number {
    return this.#copied;
  }

  /** Call when that many bytes were written. */
  async take(bytes: number): Promise<void> {
    const { bytesPerSecond, burstBytes } = this.#limits;
    this.#copied += bytes;
    const now = performance.now();
    const burstMs = (burstBytes / bytesPerSecond) * 1000;
    this.#filledUntil = Math.max(this.#filledUntil, now - burstMs) + (bytes / bytesPerSecond) * 1000;
    const waitMs = this.#filledUntil - now;
    if (waitMs > 1) await Bun.sleep(waitMs);
  }
}
