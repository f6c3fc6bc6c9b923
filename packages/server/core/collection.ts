/**
 * Collecting one node: claim (transaction, rechecked there) → delete its bytes (outside any) → forget (transaction).
 * Whatever instant a crash picks, what is left is a claimed row: it does not read as ready, its edges still protect its
 * children, and the next pass or sweep finishes it, or a lease revives it (contract section 7). Inline bytes are rows
 * themselves, so they and their node go in one transaction.
 */
import { ApiError } from '@holdfast/protocol';
import { deleteObjects } from './contents.ts';
import type { Core } from './core.ts';
import { removeNodeWithEdges } from './edges.ts';
import { isEligible } from './eligibility.ts';
import { assertInvariant } from './invariant.ts';
import type { Generation, NodeRow, Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

export interface Claims {
  /** candidates looked at */
  readonly examined: number;
  /** gone already, bytes and row */
  readonly forgotten: readonly NodeRow[];
  /** claimed rows whose objects are now to be deleted */
  readonly claimed: readonly NodeRow[];
}

/** The claims that one pass, or one step of the sweep, is finishing. */
export type HeldClaims = Set<Generation>;

const STORAGE_RETRY_AFTER_SECONDS = 2;

/**
 * What passes and sweep steps of this process hold right now. A claim that another holds is not a leftover: it is left to
 * its pass, which so reports all it deleted. Not needed for safety: whoever else finishes a claim, only one forgets it.
 */
const underWay = new Set<HeldClaims>();

/** Runs one pass or sweep step; when it ends, however it ends, claims it did not finish are leftovers. */
export async function holdingClaims<T>(work: (held: HeldClaims) => Promise<T>): Promise<T> {
  const held: HeldClaims = new Set();
  underWay.add(held);
  try {
    return await work(held);
  } finally {
    underWay.delete(held);
  }
}

export async function claimCandidates(
  tx: SpaceTransaction,
  limit: number,
  held: HeldClaims,
): Promise<Claims> {
  const candidates = await tx.findCandidates(limit);
  const forgotten: NodeRow[] = [];
  const claimed: NodeRow[] = [];
  for (const candidate of candidates) {
    // Read again: forgetting one candidate of this batch changes its children.
    const row = await tx.findNode(candidate.hash);
    assertInvariant(
      row !== undefined && isEligible(row, tx.now),
      'a candidate is eligible when it is claimed',
    );
    if (row.inline) {
      await forget(tx, row);
      forgotten.push(row);
    } else {
      const claim: NodeRow = { ...row, state: 'claimed' };
      await tx.updateNode(row, claim);
      // Before the commit, so that no other transaction sees the claim without its holder. Undone, it holds nothing.
      held.add(claim.generation);
      claimed.push(claim);
    }
  }
  return { examined: candidates.length, forgotten, claimed };
}

/** Claims that an interrupted pass left behind. */
export async function findLeftoverClaims(
  tx: SpaceTransaction,
  limit: number,
  held: HeldClaims,
): Promise<Claims> {
  const others = [...underWay].filter((other) => other !== held);
  const all = await tx.findClaimed(limit);
  const claimed = all.filter(({ generation }) => !others.some((other) => other.has(generation)));
  for (const { generation } of claimed) held.add(generation);
  return { examined: claimed.length, forgotten: [], claimed };
}

/**
 * Deletes the claimed objects and forgets their rows; the rows that really went are returned. A storage failure ends it
 * with 503 after what was deleted has been forgotten; the rest stays claimed.
 */
export async function finishClaims(
  core: Core,
  space: Space,
  claimed: readonly NodeRow[],
): Promise<NodeRow[]> {
  if (claimed.length === 0) return [];
  const generations = claimed.map(({ generation }) => generation);
  const { deleted, failure } = await deleteObjects(core, space, generations);
  const forgotten = await core.metadata.transact(space, async (tx) => {
    const gone: NodeRow[] = [];
    for (const claim of claimed) {
      if (!deleted.has(claim.generation)) continue;
      const row = await tx.findNode(claim.hash);
      // Revived by a lease, or finished by another pass: then it is no longer ours to forget.
      if (row?.state !== 'claimed' || row.generation !== claim.generation) continue;
      await forget(tx, row);
      gone.push(row);
    }
    return gone;
  });
  if (failure !== undefined) {
    throw new ApiError(
      'SERVICE_UNAVAILABLE',
      'the content store failed to delete; run the collection again',
      {
        retryAfterSeconds: STORAGE_RETRY_AFTER_SECONDS,
        cause: failure,
      },
    );
  }
  return forgotten;
}

async function forget(tx: SpaceTransaction, row: NodeRow): Promise<void> {
  await tx.deleteContent(row.generation);
  await removeNodeWithEdges(tx, row);
}
