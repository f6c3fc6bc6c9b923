/**
 * Keeps the limit of active uploads exact across processes without making all who open uploads in a Space wait for each other.
 * They hold the Space's row together (FOR KEY SHARE) while the count is so far below the limit that all transactions this
 * PostgreSQL can run at once would not reach it; close to it each holds the row alone, which waits for all the others.
 */
import type { SpaceKey } from '../../../core/model.ts';

/** ms for which a Space that came close is taken to be close still */
const CLOSE_MS = 5_000;
const SPACES_MAX = 10_000;

export class UploadLimit {
  /** transactions of all processes at once, at most */
  readonly #concurrencyMax: number;
  readonly #closeUntil = new Map<SpaceKey, number>();
  #atMost: number | undefined;

  constructor(concurrencyMax: number) {
    this.#concurrencyMax = concurrencyMax;
  }

  /** The limit that will be asked for, as far as is known, where counting ahead can spare a round trip. */
  findAtMostToCountAhead(space: SpaceKey): number | undefined {
    if (this.#atMost === undefined || this.isClose(space, this.#atMost)) return undefined;
    return this.#atMost;
  }

  isClose(space: SpaceKey, atMost: number): boolean {
    this.#atMost = atMost;
    if (atMost <= this.#concurrencyMax) return true;
    return (this.#closeUntil.get(space) ?? 0) > performance.now();
  }

  /** Returns whether `count`, made while others could count too, is too close to the limit to be relied on. */
  noteCount(space: SpaceKey, count: number, atMost: number): boolean {
    if (count + this.#concurrencyMax < atMost) return false;
    if (this.#closeUntil.size >= SPACES_MAX) this.#closeUntil.clear();
    this.#closeUntil.set(space, performance.now() + CLOSE_MS);
    return true;
  }
}
