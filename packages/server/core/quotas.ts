/** Limits on what a Space, or all Spaces of an App together, may store (docs/operations.md, Quotas). */
import { ApiError } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { Space, SpaceCounters } from './model.ts';

export interface Stored {
  /** canonical bytes of ready and of waiting nodes */
  readonly bytes: number;
  /** rows in any state */
  readonly nodes: number;
  /** commits of root refs that are kept; left out: 0 */
  readonly commits?: number;
}

/** `undefined`: no limit. */
export interface QuotaLimits {
  readonly maxBytes: number | undefined;
  readonly maxNodes: number | undefined;
  readonly maxCommits?: number | undefined;
}

export interface SpaceQuotas {
  readonly space: QuotaLimits | undefined;
  /** all Spaces of the App together have a limit too */
  readonly isAppLimited: boolean;
}

export interface Quotas {
  /** `undefined`: there are none. */
  find(space: Space): SpaceQuotas | undefined;
  /** Whether `more` fits into the quota of the App now, by a sum that is 5 s old at most. */
  findAppExcess(space: Space, more: Stored): Promise<Excess | undefined>;
  /** The same, and keeps room for `more` until `settle`. */
  reserve(space: Space, more: Stored): Promise<Excess | Reservation>;
  /** The same for bytes that are about to be received: beside what is stored, all counts that was received and is not judged. */
  reserveReceipt(space: Space, bytes: number): Promise<Excess | Reservation>;
}

export interface Reservation {
  readonly more: Stored;
  /** Call once: whether `more` is stored now, or so much of it. */
  settle(isStored: boolean, stored?: Stored): void;
}

/** Where nothing is ever stored. */
export const NO_QUOTAS: Quotas = {
  find: () => undefined,
  findAppExcess: async () => undefined,
  reserve: async (_, more) => ({ more, settle: () => undefined }),
  reserveReceipt: async (_, bytes) => ({ more: { bytes, nodes: 0 }, settle: () => undefined }),
};

/** By which a transaction judges. Plain data: it may run in another thread. */
export interface QuotaInput {
  readonly space: QuotaLimits | undefined;
  /** `undefined`: the App has no limit; room for so much is reserved; or what its quota refuses */
  readonly app: { readonly reserved: Stored } | { readonly excess: Excess } | undefined;
}

export const NOTHING_STORED: Stored = { bytes: 0, nodes: 0 };

/** The excess that a quota refuses. Plain data. */
export interface Excess {
  readonly holder: 'Space' | 'App';
  readonly unit: 'bytes' | 'nodes' | 'commits';
  readonly stored: number;
  readonly more: number;
  readonly limit: number;
}

export function storedOf({
  readyStoredBytes,
  waitingBytes,
  nodeCount,
  commitRows = 0,
}: Pick<SpaceCounters, 'readyStoredBytes' | 'waitingBytes' | 'nodeCount'> & {
  readonly commitRows?: number;
}): Stored {
  return { bytes: readyStoredBytes + waitingBytes, nodes: nodeCount, commits: commitRows };
}

/** The first limit that `more` would exceed. */
export function findExcess(
  holder: Excess['holder'],
  limits: QuotaLimits | undefined,
  stored: Stored,
  more: Stored,
): Excess | undefined {
  const { maxBytes, maxNodes, maxCommits } = limits ?? {};
  if (maxBytes !== undefined && more.bytes > 0 && stored.bytes + more.bytes > maxBytes) {
    return { holder, unit: 'bytes', stored: stored.bytes, more: more.bytes, limit: maxBytes };
  }
  if (maxNodes !== undefined && more.nodes > 0 && stored.nodes + more.nodes > maxNodes) {
    return { holder, unit: 'nodes', stored: stored.nodes, more: more.nodes, limit: maxNodes };
  }
  const { commits = 0 } = more;
  if (maxCommits !== undefined && commits > 0 && (stored.commits ?? 0) + commits > maxCommits) {
    return { holder, unit: 'commits', stored: stored.commits ?? 0, more: commits, limit: maxCommits };
  }
  return undefined;
}

/** The refusal of a quota to store `more`. Plain data. */
export type QuotaRefusal =
  | { readonly kind: 'full'; readonly excess: Excess }
  /** nothing has changed: reserve this much room in the quota of the App, then ask again */
  | { readonly kind: 'reserve'; readonly more: Stored };

/** `undefined`: nothing stands against storing `more`. `readStored` is asked only if the Space has a limit. */
export async function judgeQuotas(
  quotas: QuotaInput | undefined,
  more: Stored,
  readStored: () => Awaitable<Stored>,
): Promise<QuotaRefusal | undefined> {
  if (quotas === undefined || isNothing(more)) return undefined;
  const { space, app } = quotas;
  if (app !== undefined && 'excess' in app) return { kind: 'full', excess: app.excess };
  if (app !== undefined && !isWithin(more, app.reserved)) {
    return { kind: 'reserve', more };
  }
  if (space === undefined) return undefined;
  const excess = findExcess('Space', space, await readStored(), more);
  return excess && { kind: 'full', excess };
}

const isNothing = (more: Stored): boolean => isWithin(more, NOTHING_STORED);

function isWithin(more: Stored, room: Stored): boolean {
  const areFewCommits = (more.commits ?? 0) <= (room.commits ?? 0);
  return more.bytes <= room.bytes && more.nodes <= room.nodes && areFewCommits;
}

/** Without `Retry-After`: waiting does not help. */
export class QuotaExceeded extends ApiError {
  readonly excess: Excess;

  constructor(excess: Excess) {
    const { holder, unit, stored, more, limit } = excess;
    const remedy =
      unit === 'commits'
        ? 'ask the operator for a larger quota'
        : 'free some by forgetting trees and collecting, or ask the operator for a larger quota';
    super(
      'RESOURCE_EXHAUSTED',
      `the quota of the ${holder} would be exceeded: ${stored} of ${limit} ${limit === 1 ? `${unit.slice(0, -1)} is` : `${unit} are`} in use, and this request needs ${more} more; ${remedy}`,
    );
    this.excess = excess;
  }
}

/** Room on the disk that holds the data folder: a part of it is kept free, so that what was received can still be judged. */
export interface FreeSpace {
  /** Whether `bytes` more would leave less than is kept free, or no inode is left beyond those that are. */
  isLowFor(bytes: number): boolean;
}

/** `freeSpace` is undefined where nothing is kept on a disk of ours. Throws SERVICE_UNAVAILABLE. */
export function checkRoom(freeSpace: FreeSpace | undefined, bytes: number): void {
  if (freeSpace?.isLowFor(bytes)) throw noRoom();
}

export const noRoom = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    "no space, or no inodes, left on the server's disk but the part it keeps free: reads work and nothing is lost; try again when its operator has made room",
    // An operator has to make room, which takes a while.
    { retryAfterSeconds: 30 },
  );
