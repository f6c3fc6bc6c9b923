/**
 * Collecting one node: claim (transaction, rechecked there) → delete its bytes (outside any) → forget (transaction).
 * Whatever instant a crash picks, what is left is a claimed row: it does not read as ready, its edges still protect its
 * children, and the next pass or sweep finishes it, or a lease revives it (docs/design.md, Collection). Inline bytes are rows
 * themselves, so they and their node go in one transaction.
 *
 * A pass holds the claims it is finishing: until the hold ends no other pass or sweep, of any process, takes them, so that it
 * reports all it deleted. Safety does not rest on it: whoever else finishes a claim, only one forgets it.
 */
import { ApiError } from '@holdfast/protocol';
import { findUrlExpiries } from './contents.ts';
import type { Core } from './core.ts';
import { removeNodesWithEdges } from './edges.ts';
import { isEligible } from './eligibility.ts';
import { assertInvariant } from './invariant.ts';
import type { Generation, NodeRow, Space } from './model.ts';
import type { SpaceTransaction, UploadKind } from './ports.ts';

export interface Claims {
  /** candidates looked at */
  readonly examined: number;
  /** gone already, bytes and row */
  readonly forgotten: readonly NodeRow[];
  /** claimed rows, held by the caller, whose objects are now to be deleted */
  readonly claimed: readonly NodeRow[];
  /** others hold claims here: they finish them, or have died */
  readonly othersHold: boolean;
}

/** ms; what deleting the objects of one transaction's claims takes, with room. A process that dies holds its claims so long. */
export const CLAIM_HOLD_MS = 10_000;

const STORAGE_RETRY_AFTER_SECONDS = 2;

export interface ClaimsWanted {
  readonly limit: number;
  readonly uploads: UploadKind;
}

export async function claimCandidates(
  tx: SpaceTransaction,
  { limit, uploads }: ClaimsWanted,
): Promise<Claims> {
  const candidates = await tx.findCandidates(limit);
  for (const row of candidates) {
    assertInvariant(isEligible(row, tx.now), 'a candidate is eligible when it is claimed');
  }
  // No candidate is another's child: each has no edges.
  const inline = candidates.filter((row) => row.inline);
  await forgetAll(tx, inline, tx.now, uploads);
  const claimed = await holdAll(
    tx,
    candidates.filter((row) => !row.inline),
  );
  return { examined: candidates.length, forgotten: inline, claimed, othersHold: false };
}

/** Claims that an interrupted pass left behind. */
export async function findLeftoverClaims(
  tx: SpaceTransaction,
  { limit }: Pick<ClaimsWanted, 'limit'>,
): Promise<Claims> {
  // Held ones come last.
  const found = await tx.findClaimed(tx.now + CLAIM_HOLD_MS, limit);
  const claimed = await holdAll(
    tx,
    found.filter(({ claimHeldUntil }) => claimHeldUntil <= tx.now),
  );
  const othersHold = claimed.length < found.length;
  return { examined: claimed.length, forgotten: [], claimed, othersHold };
}

async function holdAll(tx: SpaceTransaction, rows: readonly NodeRow[]): Promise<NodeRow[]> {
  const held: NodeRow[] = [];
  for (const row of rows) {
    const claim: NodeRow = { ...row, state: 'claimed', claimHeldUntil: tx.now + CLAIM_HOLD_MS };
    await tx.updateNode(row, claim);
    held.push(claim);
  }
  return held;
}

/**
 * Deletes the objects of claims that the caller holds and forgets their rows; the rows that really went are returned. A
 * storage failure ends it with 503 after what was deleted has been forgotten; the rest stays claimed, and is let go of, so
 * that the next pass finishes it.
 */
export async function finishClaims(
  core: Core,
  space: Space,
  claimed: readonly NodeRow[],
): Promise<NodeRow[]> {
  if (claimed.length === 0) return [];
  const claims = claimed.map(({ hash, generation, claimHeldUntil }) => ({
    hash,
    generation,
    claimHeldUntil,
  }));
  const settle = (deleted: ReadonlySet<Generation>) =>
    core.metadata.transact(space, settleClaims, { claims, deleted, uploads: core.content.upload.kind });
  let failure: unknown;
  let forgotten: NodeRow[];
  try {
    const outcome = await core.content.delete(
      space,
      claimed.map(({ generation }) => generation),
    );
    failure = outcome.failure;
    forgotten = await settle(outcome.deleted);
  } catch (error) {
    // When this fails too, the claims are held until their time is over.
    await settle(new Set()).catch(() => {});
    throw error;
  }
  if (failure === undefined) return forgotten;
  throw new ApiError('SERVICE_UNAVAILABLE', 'the content store failed to delete; run the collection again', {
    retryAfterSeconds: STORAGE_RETRY_AFTER_SECONDS,
    cause: failure,
  });
}

interface SettledClaims {
  readonly claims: readonly Pick<NodeRow, 'hash' | 'generation' | 'claimHeldUntil'>[];
  /** those whose objects are gone */
  readonly deleted: ReadonlySet<Generation>;
  readonly uploads: UploadKind;
}

/** Forgets the rows whose objects are gone, lets go of the others. */
export async function settleClaims(
  tx: SpaceTransaction,
  { claims, deleted, uploads }: SettledClaims,
): Promise<NodeRow[]> {
  const rows = await tx.findNodes(claims.map(({ hash }) => hash));
  const gone: NodeRow[] = [];
  let deletedAfter = tx.now;
  for (const [index, claim] of claims.entries()) {
    const row = rows[index];
    // Revived by a lease, or finished by another pass: then it is no longer ours to forget.
    if (row?.state !== 'claimed' || row.generation !== claim.generation) continue;
    if (deleted.has(claim.generation)) {
      gone.push(row);
      deletedAfter = Math.min(deletedAfter, claim.claimHeldUntil - CLAIM_HOLD_MS);
    } else if (row.claimHeldUntil === claim.claimHeldUntil) {
      await tx.updateNode(row, { ...row, claimHeldUntil: 0 });
    }
  }
  await forgetAll(tx, gone, deletedAfter, uploads);
  return gone;
}

/** `deletedAfter`: their objects were deleted at this instant or later. */
async function forgetAll(
  tx: SpaceTransaction,
  rows: readonly NodeRow[],
  deletedAfter: number,
  uploads: UploadKind,
): Promise<void> {
  const expiries = await findUrlExpiries(tx, rows, uploads);
  for (const [index, { generation }] of rows.entries()) {
    const urlExpiresAt = expiries[index] ?? 0;
    // A URL that was good then can have brought the object back since, or still can.
    if (urlExpiresAt > deletedAfter) await tx.setDiscard({ generation, dueAt: urlExpiresAt, urlExpiresAt });
    await tx.deleteContent(generation);
  }
  await removeNodesWithEdges(tx, rows);
}
