/**
 * Keeps the limit of active uploads exact across processes without making all who open uploads in a Space wait for each other.
 * Whoever opens one holds a permit of the Space from before it counts until it commits, so at most as many as there are permits
 * open at once. While the count is so far below the limit that all of them would not reach it, one permit is enough. Close to the
 * limit each takes all permits, which waits for all the others: then the count is exact.
 */
import { randomInt } from 'node:crypto';
import type { SpaceKey } from '../../core/model.ts';
import type { TransactionWire } from './wire/transaction-wire.ts';

/** ms for which a Space that came close is taken to be close still */
const CLOSE_MS = 5_000;
const SPACES_MAX = 10_000;
/** of a Space: so many open uploads at once there */
const PERMITS_MAX = 64;
/** Permits are no more than this share of the limit, so that all but the last of it is opened side by side. */
const PERMITS_SHARE = 1 / 4;

/** Alike in every process, since it follows from the limit alone. */
const permitsOf = (atMost: number): number =>
  Math.max(1, Math.min(PERMITS_MAX, Math.floor(atMost * PERMITS_SHARE)));

export class UploadLimit {
  readonly #closeUntil = new Map<SpaceKey, number>();
  /** so that processes begin their permits at different ones */
  readonly #firstPermit = randomInt(PERMITS_MAX);
  #atMost: number | undefined;

  /** The limit that will be asked for, as far as is known, where counting ahead can spare a round trip. */
  findAtMostToCountAhead(space: SpaceKey): number | undefined {
    if (this.#atMost === undefined || this.isClose(space, this.#atMost)) return undefined;
    return this.#atMost;
  }

  isClose(space: SpaceKey, atMost: number): boolean {
    this.#atMost = atMost;
    return (this.#closeUntil.get(space) ?? 0) > performance.now();
  }

  /** Connections of one process get different permits, as far as there are enough. */
  permitOf(connection: number, atMost: number): number {
    return (this.#firstPermit + connection) % permitsOf(atMost);
  }

  /** Returns whether `count`, made with one permit, is too close to the limit to be relied on. */
  noteCount(space: SpaceKey, count: number, atMost: number): boolean {
    if (count + permitsOf(atMost) <= atMost) return false;
    if (this.#closeUntil.size >= SPACES_MAX) this.#closeUntil.clear();
    this.#closeUntil.set(space, performance.now() + CLOSE_MS);
    return true;
  }
}

/** The count of active uploads in one transaction. */
export class UploadCount {
  readonly #wire: TransactionWire;
  readonly #space: SpaceKey;
  readonly #limit: UploadLimit;
  #ahead: { readonly count: number; readonly atMost: number } | undefined;

  constructor(wire: TransactionWire, space: SpaceKey, limit: UploadLimit) {
    this.#wire = wire;
    this.#space = space;
    this.#limit = limit;
  }

  /** Counts while `key` is looked for, if the limit is known by now: used if the hash turns out to be new. */
  async countAhead(key: string): Promise<void> {
    const atMost = this.#limit.findAtMostToCountAhead(this.#space);
    if (atMost === undefined || this.#ahead !== undefined) return;
    const [taken, { rows }] = await Promise.all([
      this.#wire.send('takePermitForNew', [this.#space, this.#permitOf(atMost), key]),
      this.#wire.send('countActiveUploadsForNew', [this.#space, this.#wire.clock, atMost, key]),
    ]);
    const count = rows[0]?.count as number | undefined;
    // Where the hash was there at the lock and is gone at the count, or the permit has yet to be made, nothing is held.
    if (count !== undefined && taken.rows.length > 0) this.#ahead = { count, atMost };
  }

  /** `write` sends what was written by now; `hasChanges`: uploads are among it. */
  async count(
    atMost: number,
    hasChanges: boolean,
    write: () => readonly Promise<unknown>[],
  ): Promise<number> {
    if (this.#ahead?.atMost === atMost && !hasChanges) {
      this.#assertFar(this.#ahead.count, atMost);
      return this.#ahead.count;
    }
    const isClose = this.#limit.isClose(this.#space, atMost);
    const first = isClose ? 0 : this.#permitOf(atMost);
    const last = isClose ? permitsOf(atMost) - 1 : first;
    const taking = this.#wire.send('takePermits', [this.#space, first, last]);
    const written = write();
    const counting = this.#wire.send('countActiveUploads', [this.#space, this.#wire.clock, atMost]);
    const [{ rows }] = await Promise.all([counting, taking, ...written]);
    const count = rows[0]?.count as number;
    if (!isClose) this.#assertFar(count, atMost);
    return count;
  }

  #permitOf(atMost: number): number {
    return this.#limit.permitOf(this.#wire.connectionNumber, atMost);
  }

  /** Others may open uploads meanwhile: close to the limit the body is run again and takes all permits. */
  #assertFar(count: number, atMost: number): void {
    if (this.#limit.noteCount(this.#space, count, atMost)) {
      this.#wire.runAgain('the limit of active uploads is close');
    }
  }
}
