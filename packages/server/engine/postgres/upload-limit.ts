/**
 * Keeps the limit of active uploads exact across processes, although transactions open uploads of a Space side by side. Each
 * holds a permit of the Space from before it counts until it commits, so no more of them run at once than there are permits.
 * While the count is so far below the limit that all permits together could not reach it, one permit is enough. Close to the
 * limit a transaction takes all permits, which waits for all the others: then the count is exact.
 */
import { randomInt } from 'node:crypto';
import type { SpaceKey } from '../../core/model.ts';
import type { TransactionWire } from './wire/transaction-wire.ts';

/** permits of one Space: this many transactions can open uploads there at once */
const PERMITS_MAX = 64;

/** The same in every process, because it depends only on the limit. */
const permitsOf = (atMost: number): number =>
  // Most uploads are opened side by side: few have to wait for a permit.
  Math.max(1, Math.min(PERMITS_MAX, Math.floor(atMost / 4)));

export class UploadLimit {
  readonly #closeUntil = new Map<SpaceKey, number>();
  /** random, so that processes begin at different permits */
  readonly #firstPermit = randomInt(PERMITS_MAX);
  #atMost: number | undefined;

  /** The limit that the body will ask for, if it is known and counting ahead can save a round trip. */
  findAtMostToCountAhead(space: SpaceKey): number | undefined {
    if (this.#atMost === undefined || this.isClose(space, this.#atMost)) return undefined;
    return this.#atMost;
  }

  isClose(space: SpaceKey, atMost: number): boolean {
    this.#atMost = atMost;
    return (this.#closeUntil.get(space) ?? 0) > performance.now();
  }

  /** Connections of one process get different permits if there are enough. */
  permitOf(connection: number, atMost: number): number {
    return (this.#firstPermit + connection) % permitsOf(atMost);
  }

  /** Returns whether `count`, made with one permit, is too close to the limit to be relied on. */
  noteCount(space: SpaceKey, count: number, atMost: number): boolean {
    if (count + permitsOf(atMost) <= atMost) return false;
    if (this.#closeUntil.size >= 10_000) this.#closeUntil.clear();
    this.#closeUntil.set(space, performance.now() + 5_000);
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

  /** Counts while `key` is looked for, if the limit is known. The count is used if the hash turns out to be new. */
  async countAhead(key: string): Promise<void> {
    const atMost = this.#limit.findAtMostToCountAhead(this.#space);
    if (atMost === undefined || this.#ahead !== undefined) return;
    const [taken, { rows }] = await Promise.all([
      this.#wire.send('takePermitForNew', [this.#space, this.#permitOf(atMost), key]),
      this.#wire.send('countActiveUploadsForNew', [this.#space, this.#wire.clock, atMost, key]),
    ]);
    const count = rows[0]?.count as number | undefined;
    // Nothing is held if the hash was there at the lock and gone at the count, or if the permit does not exist yet.
    if (count !== undefined && taken.rows.length > 0) this.#ahead = { count, atMost };
  }

  /** `write` sends the writes so far; `hasChanges`: uploads are among them. */
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

  /** Other transactions may open uploads meanwhile: close to the limit the body runs again and takes all permits. */
  #assertFar(count: number, atMost: number): void {
    if (this.#limit.noteCount(this.#space, count, atMost)) {
      this.#wire.runAgain('the limit of active uploads is close');
    }
  }
}
