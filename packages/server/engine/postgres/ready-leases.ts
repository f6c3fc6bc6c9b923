/**
 * Merges renewals of ready leases per Space. Renewals of one turn of the event loop share a statement. Renewals that arrive
 * while a statement of their Space is under way wait for the next one. So one commit on disk serves them all, and the busier a
 * Space is, the less each renewal costs.
 */
import type { Hash } from '@holdfast/protocol';
import type { Space, SpaceKey } from '../../core/model.ts';
import type { LeaseWindow } from '../../core/node-row.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { RowDamaged } from './damage.ts';
import { byteaToHex, hexToBytea, type SqlRow } from './wire/wire-messages.ts';

interface Renewal {
  readonly space: Space;
  readonly hash: Hash;
  readonly durationMs: number;
  /** when it has waited too long, by `performance.now()` */
  readonly refuseAt: number;
  resolve(lease: LeaseWindow | undefined): void;
  reject(error: unknown): void;
}

/** Renews many rows in one statement; the hashes are distinct. Resolves with a row for each that is ready. */
export type RenewRows = (
  space: Space,
  key: SpaceKey,
  hashes: readonly string[],
  durationsMs: readonly number[],
) => Promise<readonly SqlRow[]>;

export class ReadyLeases {
  readonly #renew: RenewRows;
  readonly #waitMs: number;
  /**
   * the renewals that wait for the next statement, oldest first, by Space; a Space is here while it is due or has one under way
   */
  readonly #waiting = new Map<SpaceKey, Renewal[]>();
  /** Spaces whose statement is sent when this turn has read all requests that have arrived */
  #due: SpaceKey[] = [];
  /** one timer for all that wait, set for the oldest, so that it is seldom set again under load */
  #watch: ReturnType<typeof setTimeout> | undefined;

  /** `waitMs`: how long a renewal may wait for the statement before it */
  constructor(renew: RenewRows, waitMs: number) {
    this.#renew = renew;
    this.#waitMs = waitMs;
  }

  /**
   * Rejects with the failure of the statement, or with StoreUnavailable when it waited too long to be sent: then it is never
   * sent.
   */
  renew(space: Space, key: SpaceKey, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined> {
    return new Promise((resolve, reject) => {
      const refuseAt = performance.now() + this.#waitMs;
      const renewal = { space, hash, durationMs, refuseAt, resolve, reject };
      const waiting = this.#waiting.get(key);
      if (waiting !== undefined) {
        waiting.push(renewal);
        if (this.#watch === undefined) this.#watchFor(this.#waitMs);
        return;
      }
      this.#waiting.set(key, [renewal]);
      this.#plan(key);
    });
  }

  #refuseLate(): void {
    this.#watch = undefined;
    const now = performance.now();
    let nextAt = Number.POSITIVE_INFINITY;
    for (const waiting of this.#waiting.values()) {
      // The renewal was not sent, so nothing changed.
      while (waiting[0] !== undefined && waiting[0].refuseAt <= now) waiting.shift()?.reject(tooLate());
      nextAt = Math.min(nextAt, waiting[0]?.refuseAt ?? nextAt);
    }
    if (nextAt < Number.POSITIVE_INFINITY) this.#watchFor(nextAt - now);
  }

  #watchFor(ms: number): void {
    this.#watch = setTimeout(() => this.#refuseLate(), Math.max(1, ms));
    this.#watch.unref();
  }

  #plan(space: SpaceKey): void {
    if (this.#due.push(space) === 1) setImmediate(() => this.#sendDue());
  }

  #sendDue(): void {
    const due = this.#due;
    this.#due = [];
    for (const space of due) void this.#send(space);
  }

  /** Sends one statement, and the next when that is answered, until no request waits. */
  async #send(space: SpaceKey): Promise<void> {
    const waiting = this.#waiting.get(space) ?? [];
    // A larger statement would hold its rows and its callers for long.
    if (waiting.length > 0) await this.#renewTogether(space, waiting.splice(0, 512));
    if (waiting.length === 0) this.#waiting.delete(space);
    else this.#plan(space);
  }

  /** If several requests renew the same hash, it gets the longest duration, and all of them get that lease. */
  async #renewTogether(key: SpaceKey, batch: readonly Renewal[]): Promise<void> {
    const durations = new Map<Hash, number>();
    for (const { hash, durationMs } of batch) {
      durations.set(hash, Math.max(durations.get(hash) ?? 0, durationMs));
    }
    const [first] = batch;
    if (first === undefined) return;
    try {
      // Rows are locked in this order, so that two statements never wait for each other in a circle.
      const hashes = [...durations.keys()].sort();
      const wanted = hashes.map((hash) => durations.get(hash) ?? 0);
      const rows = await this.#renew(first.space, key, hashes.map(hexToBytea), wanted);
      const leases = new Map(rows.map((row) => [byteaToHex(row.hash), leaseOf(row)]));
      for (const { hash, resolve, reject } of batch) {
        const lease = leases.get(hash);
        if (lease === 'damaged') reject(new RowDamaged('nodes', `node ${hash}`));
        else resolve(lease);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

const tooLate = (): StoreUnavailable =>
  new StoreUnavailable('too many renewals of this Space wait for the database: try again');

function leaseOf(row: SqlRow): LeaseWindow | 'damaged' {
  if (row.proven !== true) return 'damaged';
  return { leaseStartedAt: row.started as number, leaseExpiresAt: row.expires as number };
}
