/** What operating many tenants needs of the rows, beside what requests need (core/ports.ts). */
import type { Hash } from '@holdfast/protocol';
import type { Space, SpaceCounters } from './model.ts';

type Awaitable<T> = T | Promise<T>;

/** One Space with what is stored in it. */
export interface SpaceEntry {
  readonly space: Space;
  readonly counters: SpaceCounters;
  /** opaque: the `after` of the next page */
  readonly position: string;
}

export interface SpacePage {
  /** only the Spaces of this App */
  readonly appId?: string | undefined;
  readonly after: string | undefined;
  readonly limit: number;
}

/** Sums over the Spaces of one App. Leases are not among them: counting those would look at every Space. */
export interface AppTotals extends Omit<SpaceCounters, 'leasedNodeCount'> {
  readonly spaces: number;
}

export interface SpaceListing {
  /**
   * Every Space that was ever written, also of Apps that are not registered any more, in an order of the engine's own that never
   * changes. Fewer than `limit` only at the end.
   */
  listSpaces(page: SpacePage): Awaitable<readonly SpaceEntry[]>;
  /** Rotten nodes of the Space, at most `limit` of them, in no order. */
  listRottenNodes(space: Space, limit: number): Awaitable<readonly Hash[]>;
  readAppTotals(appId: string): Awaitable<AppTotals>;
}
