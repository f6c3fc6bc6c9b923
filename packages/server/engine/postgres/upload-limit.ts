/**
 * Keeps the limit of active uploads exact across processes without making all who open uploads in a Space wait for each other.
 * They hold the Space's row together (FOR KEY SHARE) while the count is so far below the limit that all transactions this
 * PostgreSQL can run at once would not reach it; close to it each holds the row alone, which waits for all the others.
 */
import type { SpaceKey } from '../../core/model.ts';
import { RunAgain, type TransactionWire } from './wire/transaction-wire.ts';

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
    const [shared, { rows }] = await Promise.all([
      this.#wire.send('shareSpaceForNew', [this.#space, key]),
      this.#wire.send('countActiveUploadsForNew', [this.#space, this.#wire.clock, atMost, key]),
    ]);
    const count = rows[0]?.count as number | undefined;
    // Where the hash was there at the lock and is gone at the count, nothing is held.
    if (count !== undefined && shared.rows.length > 0) this.#ahead = { count, atMost };
  }

  /** `write` sends what was written by now, the Space's row among it; `hasChanges`: uploads are among it too. */
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
    const written = write();
    const [{ rows }] = await Promise.all([this.#lockAndCount(isClose, atMost), ...written]);
    const count = rows[0]?.count as number;
    if (!isClose) this.#assertFar(count, atMost);
    return count;
  }

  async #lockAndCount(isClose: boolean, atMost: number) {
    const locking = this.#wire.send(isClose ? 'lockSpace' : 'shareSpace', [this.#space]);
    const counting = this.#wire.send('countActiveUploads', [this.#space, this.#wire.clock, atMost]);
    const [, counted] = await Promise.all([locking, counting]);
    return counted;
  }

  /** Held together, the lock makes no count exact: close to the limit the body is run again and holds it alone. */
  #assertFar(count: number, atMost: number): void {
    if (!this.#limit.noteCount(this.#space, count, atMost)) return;
    const again = new RunAgain('the limit of active uploads is close');
    this.#wire.fail(again);
    throw again;
  }
}
