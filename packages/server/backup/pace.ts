/** Bounds on the rate of copying, so that a server on the same disk and cores is hardly slower meanwhile. */
import { MIB_BYTES } from '@holdfast/protocol';

export interface PaceLimits {
  /** while nobody else works: a request that comes then waits for one piece of the copy at most */
  readonly quietBytesPerSecond: number;
  /** while others work all the time */
  readonly crowdedBytesPerSecond: number;
  /** of the time, 0…1, while others work all the time; the slower a busy disk answers, the more rest it gets */
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

/** ms of copying at that rate that need no rest if there is a former backup: what changed since yesterday is often no more */
export const REPEAT_BURST_MS = 2000;

export class Pace {
  readonly #limits: PaceLimits;
  readonly #burstMs: number;
  readonly #readOthersMs: () => number;
  #copied = 0;
  /** ms of the monotonic clock until which the work so far fills its share */
  #filledUntil = Number.NEGATIVE_INFINITY;

  /** `readOthersMs`: ms that the work of others since the last call may hold up the copy */
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

  /** Call when `busyMs` were worked and `bytes` written without a rest. */
  async rest(busyMs: number, bytes: number): Promise<void> {
    const startedAt = performance.now() - busyMs;
    const filledMs = planFilledMs(this.#limits, { busyMs, bytes, othersMs: this.#readOthersMs() });
    this.#filledUntil = Math.max(this.#filledUntil, startedAt - this.#burstMs) + filledMs;
    // A turn of the event loop lets a signal be heard.
    await Bun.sleep(Math.max(0, this.#filledUntil - performance.now()));
  }
}

interface Piece {
  readonly busyMs: number;
  readonly bytes: number;
  readonly othersMs: number;
}

/** ms that a piece of work and the rest after it take: the more others do, the more, up to the pace of a crowd. */
export function planFilledMs(limits: PaceLimits, { busyMs, bytes, othersMs }: Piece): number {
  const { quietBytesPerSecond, crowdedBytesPerSecond, crowdedShare } = limits;
  const quietMs = (bytes * 1000) / quietBytesPerSecond;
  const crowdedMs = Math.max(
    // A disk that hangs, or a core that others have, is no work of ours.
    Math.min(busyMs, 100) / crowdedShare,
    (bytes * 1000) / crowdedBytesPerSecond,
  );
  return Math.min(crowdedMs, quietMs + othersMs);
}
