/** A bound on the rate of copying, so that a server on the same disk and cores is hardly slower meanwhile. */
export interface PaceLimits {
  /** of the time, 0…1; the slower a busy disk answers, the more rest it gets */
  readonly busyShare: number;
  readonly bytesPerSecond: number;
  /** ms of copying at that rate that need no rest: a backup of what changed since yesterday is often no more */
  readonly burstMs: number;
}

const MIB = 1024 * 1024;
export const PAGES_PACE: PaceLimits = { busyShare: 0.15, bytesPerSecond: 4 * MIB, burstMs: 1500 };
export const OBJECTS_PACE: PaceLimits = { busyShare: 0.15, bytesPerSecond: 32 * MIB, burstMs: 500 };

/** ms of one piece of work that count: a disk that hangs, or a core that others have, is no work of ours */
const BUSY_MS_MAX = 100;

export class Pace {
  readonly #limits: PaceLimits;
  #copied = 0;
  /** ms of the monotonic clock until which the work so far fills its share */
  #filledUntil = Number.NEGATIVE_INFINITY;

  constructor(limits: PaceLimits) {
    this.#limits = limits;
  }

  get copiedBytes(): number {
    return this.#copied;
  }

  count(bytes: number): void {
    this.#copied += bytes;
  }

  /** Call when `busyMs` were worked and `bytes` written without a rest. */
  async rest(busyMs: number, bytes: number): Promise<void> {
    const { busyShare, bytesPerSecond, burstMs } = this.#limits;
    const startedAt = performance.now() - busyMs;
    const filledMs = Math.max(Math.min(busyMs, BUSY_MS_MAX) / busyShare, (bytes * 1000) / bytesPerSecond);
    this.#filledUntil = Math.max(this.#filledUntil, startedAt - burstMs) + filledMs;
    // A turn of the event loop lets a signal be heard.
    await Bun.sleep(Math.max(0, this.#filledUntil - performance.now()));
  }
}
