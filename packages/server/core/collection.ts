/**
 * Collecting one node: claim (transaction, rechecked there) → delete its bytes (outside any) → forget (transaction).
 * Whatever instant a crash picks, what is left is a claimed row: it does not read as ready, its edges still protect its
 * children, and the next pass or sweep finishes it, or a lease revives it (contract section 7). Inline bytes are rows
 * themselves, so they and their node go in one transaction.
 */
import { ApiError } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { removeNodeWithEdges } from './edges.ts';
import { isEligible } from './eligibility.ts';
import { assertInvariant } from './invariant.ts';
import type { NodeRow, Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

export interface Claims {
  /** candidates looked at */
  readonly examined: number;
  /** gone already, bytes and row */
  readonly forgotten: readonly NodeRow[];
  /** claimed rows whose objects are now to be deleted */
  readonly claimed: readonly NodeRow[];
}

const OBJECT_DELETES_IN_FLIGHT_MAX = 8;
const STORAGE_RETRY_AFTER_SECONDS = 2;

export async function claimCandidates(tx: SpaceTransaction, limit: number): Promise<Claims> {
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
      claimed.push(claim);
    }
  }
  return { examined: candidates.length, forgotten, claimed };
}

/** Claims that an interrupted pass left behind. */
export async function findLeftoverClaims(tx: SpaceTransaction, limit: number): Promise<Claims> {
  const claimed = await tx.findClaimed(limit);
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
  const { deleted, failure } = await deleteObjects(core, space, claimed);
  const forgotten = await core.metadata.transact(space, async (tx) => {
    const gone: NodeRow[] = [];
    for (const claim of deleted) {
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

async function deleteObjects(core: Core, space: Space, claimed: readonly NodeRow[]) {
  const deleted: NodeRow[] = [];
  let failure: unknown;
  let next = 0;
  const worker = async (): Promise<void> => {
    while (failure === undefined) {
      const claim = claimed[next];
      next += 1;
      if (claim === undefined) return;
      try {
        await core.content.delete(claim.generation, space);
        deleted.push(claim);
      } catch (error) {
        failure = error ?? new Error('delete failed');
      }
    }
  };
  await Promise.all(Array.from({ length: OBJECT_DELETES_IN_FLIGHT_MAX }, worker));
  return { deleted, failure };
}
