/** Limits on what a Space, or all Spaces of an App together, may store (docs/operations.md, Quotas). */
import { ApiError } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { Space, SpaceCounters } from './model.ts';

/** What quotas count. */
export interface Stored {
  /** canonical bytes of ready and of waiting nodes */
  readonly bytes: number;
  /** rows in any state */
  readonly nodes: number;
}

/** `undefined`: no limit. */
export interface QuotaLimits {
  readonly maxBytes: number | undefined;
  readonly maxNodes: number | undefined;
}

/** What holds in one Space. */
export interface SpaceQuotas {
  readonly space: QuotaLimits | undefined;
  /** all Spaces of the App together have a limit too */
  readonly isAppLimited: boolean;
}

/** The port to quotas. */
export interface Quotas {
  /** `undefined`: there are none. */
  find(space: Space): SpaceQuotas | undefined;
  /** Whether `more` fits into the quota of the App now, by a sum that is 5 s old at most. */
  findAppExcess(space: Space, more: Stored): Promise<Excess | undefined>;
  /** The same, and keeps room for `more` until `settle`. */
  reserve(space: Space, more: Stored): Promise<Excess | Reservation>;
}

export interface Reservation {
  readonly more: Stored;
  /** Call once: whether `more` is stored now. */
  settle(isStored: boolean): void;
}

/** Where nothing is ever stored. */
export const NO_QUOTAS: Quotas = {
  find: () => undefined,
  findAppExcess: async () => undefined,
  reserve: async (_, more) => ({ more, settle: () => undefined }),
};

/** By which a transaction judges. Plain data: it may run in another thread. */
export interface QuotaInput {
  readonly space: QuotaLimits | undefined;
  /** `undefined`: the App has no limit; room for so much is reserved; or what its quota refuses */
  readonly app: { readonly reserved: Stored } | { readonly excess: Excess } | undefined;
}

export const NOTHING_STORED: Stored = { bytes: 0, nodes: 0 };

/** What a quota refuses. Plain data. */
export interface Excess {
  readonly holder: 'Space' | 'App';
  readonly unit: 'bytes' | 'nodes';
  readonly stored: number;
  readonly more: number;
  readonly limit: number;
}

export function storedOf({
  readyStoredBytes,
  waitingBytes,
  nodeCount,
}: Pick<SpaceCounters, 'readyStoredBytes' | 'waitingBytes' | 'nodeCount'>): Stored {
  return { bytes: readyStoredBytes + waitingBytes, nodes: nodeCount };
}

/** The first limit that `more` would exceed. */
export function findExcess(
  holder: Excess['holder'],
  limits: QuotaLimits | undefined,
  stored: Stored,
  more: Stored,
): Excess | undefined {
  const { maxBytes, maxNodes } = limits ?? {};
  if (maxBytes !== undefined && more.bytes > 0 && stored.bytes + more.bytes > maxBytes) {
    return { holder, unit: 'bytes', stored: stored.bytes, more: more.bytes, limit: maxBytes };
  }
  if (maxNodes !== undefined && more.nodes > 0 && stored.nodes + more.nodes > maxNodes) {
    return { holder, unit: 'nodes', stored: stored.nodes, more: more.nodes, limit: maxNodes };
  }
  return undefined;
}

/** What a quota says to storing `more`. Plain data. */
export type QuotaRefusal =
  | { readonly kind: 'full'; readonly excess: Excess }
  /** nothing has changed: reserve room for so much in the quota of the App, then ask again */
  | { readonly kind: 'reserve'; readonly more: Stored };

/** `undefined`: nothing stands against storing `more`. `readStored` is asked only if the Space has a limit. */
export async function judgeQuotas(
  quotas: QuotaInput | undefined,
  more: Stored,
  readStored: () => Awaitable<Stored>,
): Promise<QuotaRefusal | undefined> {
  if (quotas === undefined || (more.bytes === 0 && more.nodes === 0)) return undefined;
  const { space, app } = quotas;
  if (app !== undefined && 'excess' in app) return { kind: 'full', excess: app.excess };
  if (app !== undefined && (app.reserved.bytes < more.bytes || app.reserved.nodes < more.nodes)) {
    return { kind: 'reserve', more };
  }
  if (space === undefined) return undefined;
  const excess = findExcess('Space', space, await readStored(), more);
  return excess && { kind: 'full', excess };
}

/** Without `Retry-After`: waiting does not help. */
export class QuotaExceeded extends ApiError {
  readonly excess: Excess;

  constructor(excess: Excess) {
    const { holder, unit, stored, more, limit } = excess;
    super(
      'RESOURCE_EXHAUSTED',
      `the quota of the ${holder} would be exceeded: ${stored} of ${limit} ${unit} are in use, and this request needs ${more} more; free some by forgetting trees and collecting, or ask the operator for a larger quota`,
    );
    this.excess = excess;
  }
}
