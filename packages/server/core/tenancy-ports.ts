/** What operating many tenants needs of the rows, beside what requests need (core/ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { DiscardRow, Space, SpaceCounters } from './model.ts';

/** What a Space holds beside what its counters count. Quotas count it too. */
export interface SpaceHoldings {
  /** bytes that were received and are not judged yet; also what packs that are being judged have reserved */
  readonly pendingBytes: number;
  /** commits of root refs that are kept */
  readonly commitRows: number;
}

/** One Space with what is stored in it. */
export interface SpaceEntry {
  readonly space: Space;
  /** undefined: they cannot be read */
  readonly counters: SpaceCounters | undefined;
  /** undefined: it cannot be read */
  readonly holdings: SpaceHoldings | undefined;
  /** it was purged, and nothing was stored in it since */
  readonly isPurged: boolean;
  /** why they cannot be read */
  readonly damage?: unknown;
  /** opaque: the `after` of the next page */
  readonly position: string;
}

export interface SpacePage {
  /** only the Spaces of this App */
  readonly appId?: string | undefined;
  readonly after: string | undefined;
  readonly limit: number;
}

/**
 * Sums over the Spaces of one App. Leases are not among them: counting those would look at every Space. A Space whose counters contradict
 * their sum adds none of them, and its App goes on.
 */
export interface AppTotals extends Omit<SpaceCounters, 'leasedNodeCount'>, SpaceHoldings {
  readonly spaces: number;
}

export interface TenantReads {
  readAppTotals(appId: string): Awaitable<AppTotals>;
  readHoldings(space: Space): Awaitable<SpaceHoldings>;
}

/** What a purge takes from a Space, beside its nodes and uploads. Within one transaction. */
export interface PurgeVerbs {
  /** Removes balances of these hashes, or of so many, in every domain; returns the hashes. All earlier cursors and history end. */
  takeBalances(of: number | readonly Hash[]): Awaitable<readonly Hash[]>;
  /** Removes up to `limit` superseded balances, and as many commits from before the balances were taken. Returns how many in all. */
  removeHistory(limit: number): Awaitable<number>;
  /** Up to `limit` discards that are due after `dueAfter`, and whose objects were never deleted: a deleted one waits for its URL. */
  findKeptDiscards(dueAfter: number, limit: number): Awaitable<readonly DiscardRow[]>;
  /** Call when all else is removed: counts the commits that are left anew, and takes the Space for purged. */
  finish(): Awaitable<void>;
}
