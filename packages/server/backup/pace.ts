/** Limits the rate of copying, so that a server on the same disk and cores is hardly slower. */
import { MIB_BYTES } from '@holdfast/protocol';

export interface PaceLimits {
  /** while the system is idle: a request waits for at most one piece of the copy */
  readonly quietBytesPerSecond: number;
  readonly crowdedBytesPerSecond: number;
  /** share of the time, 0…1, under constant load; a slower disk gets longer pauses */
  readonly crowdedShare: number;
}

export const PAGES_PACE: PaceLimits = {
  quietBytesPerSecond: 24 * MIB_BYTES,
  crowdedBytesPerSecond: 4 * MIB_BYTES,
  crowdedShare: 0.15,
};
export const OBJECTS_PACE: PaceLimits = {
  quietBytesPerSecond: 24 * MIB_BYTES,
  crowdedBytesPerSecond: 8 * MIB_BYTES,
  crowdedShare: 0.15,
};

export class Pace {
  readonly #limits: PaceLimits;
  readonly #burstMs: number;
  readonly #readOthersMs: () => number;
  #copied = 0;
  /** monotonic ms until which the work so far uses its share */
  #filledUntil = Number.NEGATIVE_INFINITY;

  /** `readOthersMs`: ms of pause that the load of others since the last call adds */
  constructor(limits: PaceLimits, burstMs: number, readOthersMs: () => number) {
    this.#limits = limits;
    this.#burstMs = burstMs;
    this.#readOthersMs = readOthersMs;
  }

  get copiedBytes(): number {
    return this.#copied;
  }

  count(bytes: number): void {
    this.#copied += bytes;
  }

  /** Call after working `busyMs` and writing `bytes` without a pause. */
  async rest(busyMs: number, bytes: number): Promise<void> {
    const startedAt = performance.now() - busyMs;
    const filledMs = planFilledMs(this.#limits, { busyMs, bytes, othersMs: this.#readOthersMs() });
    this.#filledUntil = Math.max(this.#filledUntil, startedAt - this.#burstMs) + filledMs;
    // Yields to the event loop, so that signals are handled.
    await Bun.sleep(Math.max(0, this.#filledUntil - performance.now()));
  }
}

interface Piece {
  readonly busyMs: number;
  readonly bytes: number;
  readonly othersMs: number;
}

/** ms that a piece of work and its pause take: longer with more load, up to the crowded pace. */
export function planFilledMs(limits: PaceLimits, { busyMs, bytes, othersMs }: Piece): number {
  const { quietBytesPerSecond, crowdedBytesPerSecond, crowdedShare } = limits;
  const quietMs = (bytes * 1000) / quietBytesPerSecond;
  const crowdedMs = Math.max(
    // A hanging disk or a busy core must not lengthen the pause.
    Math.min(busyMs, 100) / crowdedShare,
    (bytes * 1000) / crowdedBytesPerSecond,
  );
  return Math.min(crowdedMs, quietMs + othersMs);
}
