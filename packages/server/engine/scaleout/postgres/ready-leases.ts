/**
 * Renewals of ready leases, merged per Space: while one statement of a Space is on its way, those that come meanwhile wait and go
 * together in the next. The busier a Space is, the less each renewal costs, and one commit is durable for all of them.
 */
import type { Hash } from '@holdfast/protocol';
import type { LeaseWindow } from '../../../core/lease-state.ts';
import type { SpaceKey } from '../../../core/model.ts';
import { byteaToHex, hexToBytea, type SqlRow } from './sql-values.ts';

interface Renewal {
  readonly hash: Hash;
  readonly durationMs: number;
  resolve(lease: LeaseWindow | undefined): void;
  reject(error: unknown): void;
}

/** Renews many rows, hashes distinct, in one statement; rows come back for those that are ready. */
export type RenewRows = (
  space: SpaceKey,
  hashes: readonly string[],
  durationsMs: readonly number[],
) => Promise<readonly SqlRow[]>;

/** of one statement: larger ones would hold their rows, and their callers, for long */
const MERGED_MAX = 512;

export class ReadyLeases {
  readonly #renew: RenewRows;
  /** by Space, while a statement of it is on its way: those that wait for the next */
  readonly #waiting = new Map<SpaceKey, Renewal[]>();

  constructor(renew: RenewRows) {
    this.#renew = renew;
  }

  renew(space: SpaceKey, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined> {
    return new Promise((resolve, reject) => {
      const renewal = { hash, durationMs, resolve, reject };
      const waiting = this.#waiting.get(space);
      if (waiting !== undefined) {
        waiting.push(renewal);
        return;
      }
      this.#waiting.set(space, [renewal]);
      void this.#drain(space);
    });
  }

  /** One statement after another until nobody waits. */
  async #drain(space: SpaceKey): Promise<void> {
    for (;;) {
      const batch = this.#waiting.get(space)?.splice(0, MERGED_MAX) ?? [];
      if (batch.length === 0) break;
      await this.#renewTogether(space, batch);
    }
    this.#waiting.delete(space);
  }

  /** A hash asked for more than once gets its longest duration, and all who asked get that lease. */
  async #renewTogether(space: SpaceKey, batch: readonly Renewal[]): Promise<void> {
    const durations = new Map<Hash, number>();
    for (const { hash, durationMs } of batch) {
      durations.set(hash, Math.max(durations.get(hash) ?? 0, durationMs));
    }
    try {
      const rows = await this.#renew(space, Array.from(durations.keys(), hexToBytea), [
        ...durations.values(),
      ]);
      const leases = new Map(rows.map((row) => [byteaToHex(row.hash), leaseOf(row)]));
      for (const { hash, resolve } of batch) resolve(leases.get(hash));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

function leaseOf(row: SqlRow): LeaseWindow {
  return { leaseStartedAt: row.started as number, leaseExpiresAt: row.expires as number };
}
