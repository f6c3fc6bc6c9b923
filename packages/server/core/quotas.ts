/** Limits on what a Space, or all Spaces of an App together, may store (docs/operations.md, Quotas). */
import { ApiError } from '@holdfast/protocol';
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

/** What holds in one Space. Plain data, so that a transaction can judge by it in another thread. */
export interface SpaceQuotas {
  readonly space: QuotaLimits | undefined;
  /** `stored`: by all Spaces of the App, as this process knows it: 5 s old at most */
  readonly app: { readonly limits: QuotaLimits; readonly stored: Stored } | undefined;
}

/** The port to quotas. */
export interface Quotas {
  /** Returns the quotas themselves, not a promise, nearly always; `undefined`: there are none. */
  find(space: Space): SpaceQuotas | undefined | Promise<SpaceQuotas | undefined>;
  /** The same with a sum of the App that was read a moment ago. Asked before a quota of the App refuses anything. */
  findFresh(space: Space): Promise<SpaceQuotas | undefined>;
  /** The Space stores that much more since its App's sum was read. */
  noteStored(space: Space, more: Stored): void;
}

/** Where nothing is ever stored. */
export const NO_QUOTAS: Quotas = {
  find: () => undefined,
  findFresh: async () => undefined,
  noteStored: () => undefined,
};

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

/** Without `Retry-After`: waiting does not help. */
export function quotaExceeded({ holder, unit, stored, more, limit }: Excess): ApiError {
  return new ApiError(
    'RESOURCE_EXHAUSTED',
    `the quota of the ${holder} would be exceeded: ${stored} of ${limit} ${unit} are in use, and this node needs ${more} more; free some by forgetting trees and a collection, or ask the operator for a larger quota`,
  );
}
