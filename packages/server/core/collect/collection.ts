/**
 * Collecting one node: claim (transaction, rechecked there) → delete its bytes (outside any) → forget (transaction).
 * A crash at any instant leaves a claimed row. It does not read as ready, and its edges still protect its children. The next pass
 * or sweep finishes it, or a lease revives it (docs/design.md, Collection). Inline bytes are rows themselves, so they and their
 * node go in one transaction.
 *
 * Any number of passes may work on one claim: one of them forgets the row and reports it. Only the sweep leaves a claim for a
 * while to the pass that works on it, so that the answer of a pass does not depend on when the sweep runs.
 */
import type { Hash } from '@holdfast/protocol';
import { aroundRecords, findUrlExpiries, type LeftRecords } from '../contents.ts';
import type { Core } from '../core.ts';
import { removeNodesWithEdges } from '../edges.ts';
import type { Generation, NodeRow, Space } from '../model.ts';
import { isCollectable, isEligible } from '../node-row.ts';
import type { SpaceTransaction } from '../ports.ts';
import { isDamage, orIfDamaged, RowDamaged } from '../store-failure.ts';
import type { UploadKind } from '../upload-ports.ts';

export interface Claims {
  /** how many rows were examined */
  readonly found: number;
  /** rows that are already deleted, with their bytes */
  readonly forgotten: readonly NodeRow[];
  /** claimed rows whose objects are now to be deleted */
  readonly claimed: readonly Claim[];
  /** ms; the rows of `claimed` were claimed at this instant or before */
  readonly claimedAt: number;
  /** `from` of the next claim, as far as this one decides */
  readonly next: number;
}

type Claim = Pick<NodeRow, 'hash' | 'generation' | 'storage'>;

export interface ClaimsWanted {
  readonly limit: number;
  readonly uploads: UploadKind;
  /** claims nodes without an object of their own too, to forget them one by one: a damaged row fails every transaction that deletes it */
  readonly isDamaged: boolean;
  /** a purge: leases do not protect */
  readonly withLeased?: boolean;
  /** ms; as of ClockGuard, absent without one: leases that end later protect their nodes even if the rows' clock has jumped. */
  readonly judgedAt?: number | undefined;
  /** ms; candidates whose lease ended before it may be passed over */
  readonly from: number;
}

export async function claimCandidates(
  tx: SpaceTransaction,
  { limit, uploads, isDamaged, withLeased = false, judgedAt, from }: ClaimsWanted,
): Promise<Claims> {
  const found = await tx.due('candidates', withLeased ? Number.MAX_SAFE_INTEGER : judgedAt, limit, from);
  const endsAt = judgeLeasesAt(tx, { withLeased, judgedAt });
  // The row is checked, not only its index: a flipped bit in an index must take no node.
  const candidates = found.filter((row) => isEligible(row, endsAt));
  if (!withLeased) await assertUndoubted(tx, candidates);
  // No candidate is another's child: each has no edges.
  const forgotten = candidates.filter((row) => row.storage !== 'object' && !isDamaged);
  const freed = await forgetAll(tx, forgotten, tx.now, { uploads });
  const claimed = candidates.filter((row) => row.storage === 'object' || isDamaged);
  await holdAll(tx, claimed);
  // If all rows are skipped, the next claim would find the same ones.
  const last = found.length < limit || candidates.length === 0 ? undefined : found.at(-1);
  const next = Math.min(freed, last?.leaseExpiresAt ?? 0);
  return { found: candidates.length, forgotten, claimed: claimed.map(toClaim), claimedAt: tx.now, next };
}

/**
 * Refuses to claim rows that something holds although their counts are 0. If a wrong bit in its key hid a row, an upload made a new one,
 * whose counts began at 0 (docs/design.md, Rows are proven).
 * @throws RowDamaged
 */
async function assertUndoubted(tx: SpaceTransaction, rows: readonly NodeRow[]): Promise<void> {
  if (rows.length === 0) return;
  const [doubted] = await tx.mending.findDoubted(rows.map(({ hash }) => hash));
  if (doubted === undefined) return;
  throw new RowDamaged(`the row of node ${doubted} misses what holds it: run check --repair`);
}

/** A clock that was set back gives leases that end before the instant of the guard. */
function judgeLeasesAt(
  tx: SpaceTransaction,
  { withLeased = false, judgedAt = Number.MAX_SAFE_INTEGER }: Pick<ClaimsWanted, 'withLeased' | 'judgedAt'>,
): number {
  return withLeased ? Number.MAX_SAFE_INTEGER : Math.min(judgedAt, tx.now);
}

export interface LeftoversWanted {
  readonly limit: number;
  /** also claims that a pass may be working on */
  readonly withHeld: boolean;
}

/** Claims that were not finished, the longest untried first. */
export async function findLeftoverClaims(
  tx: SpaceTransaction,
  { limit, withHeld }: LeftoversWanted,
): Promise<Claims> {
  const rows = await tx.due('claimed', withHeld ? Number.MAX_SAFE_INTEGER : tx.now, limit);
  await holdAll(tx, rows);
  return { found: rows.length, forgotten: [], claimed: rows.map(toClaim), claimedAt: tx.now, next: 0 };
}

export interface NodesWanted extends Pick<ClaimsWanted, 'withLeased' | 'judgedAt'> {
  readonly hashes: readonly Hash[];
  /** they are not looked up among what may hold them, because a damaged page keeps that from being read */
  readonly areUndoubted?: boolean;
}

/** Claims those of `hashes` that may go, or were claimed before, for a Space without a list of candidates; also those without objects. */
export async function claimNodes(
  tx: SpaceTransaction,
  { hashes, areUndoubted, ...leases }: NodesWanted,
): Promise<Claims> {
  const endsAt = judgeLeasesAt(tx, leases);
  const rows: NodeRow[] = [];
  for (const row of await tx.findNodes(hashes)) {
    if (row !== undefined && (row.state === 'claimed' || isEligible(row, endsAt))) rows.push(row);
  }
  const isDoubting = !leases.withLeased && !areUndoubted;
  if (isDoubting) await assertUndoubted(tx, rows.filter(isCollectable));
  await holdAll(tx, rows);
  return { found: rows.length, forgotten: [], claimed: rows.map(toClaim), claimedAt: tx.now, next: 0 };
}

const toClaim = ({ hash, generation, storage }: NodeRow): Claim => ({ hash, generation, storage });

async function holdAll(tx: SpaceTransaction, rows: readonly NodeRow[]): Promise<void> {
  for (const row of rows) {
    // Deleting the objects of one transaction takes less than 10 s.
    await tx.update('node', row, { ...row, state: 'claimed', claimHeldUntil: tx.now + 10_000 });
  }
}

export interface FinishedClaims {
  readonly forgotten: readonly NodeRow[];
  /** how many rows other passes had finished before this call could forget them */
  readonly gone: number;
  /** as of Claims: children that were freed may have an earlier lease than all that was claimed */
  readonly next: number;
  /** how many claims could not be finished; their rows stay claimed */
  readonly failed: number;
  /** the reason of one of the failed claims */
  readonly failure: unknown;
}

/** Deletes the objects of claims and forgets their rows. An object that cannot be deleted does not hold up the others. */
export async function finishClaims(
  core: Core,
  space: Space,
  { claimed, claimedAt }: Pick<Claims, 'claimed' | 'claimedAt'>,
): Promise<FinishedClaims> {
  if (claimed.length === 0)
    return { forgotten: [], gone: 0, next: Number.MAX_SAFE_INTEGER, failed: 0, failure: undefined };
  const objects = claimed.filter(({ storage }) => storage === 'object').map(({ generation }) => generation);
  const { deleted, failure } = await core.content.delete(space, objects);
  const uploads = core.content.upload.kind;
  const settle = async (claims: readonly Claim[], left?: LeftRecords): Promise<FinishedClaims> => {
    const given = { claims, claimedAt, deleted, uploads, left };
    const settled = await core.metadata.transact(space, settleClaims, given);
    const failed = claims.filter(
      ({ storage, generation }) => storage === 'object' && !deleted.has(generation),
    ).length;
    return { ...settled, failed, failure };
  };
  return orIfDamaged(
    () => settle(claimed),
    () => settleOneByOne(core, space, claimed, settle),
  );
}

/** Settles each claim in a transaction of its own, so that a damaged row fails alone. */
async function settleOneByOne(
  core: Core,
  space: Space,
  claimed: readonly Claim[],
  settle: (claims: readonly Claim[], left?: LeftRecords) => Promise<FinishedClaims>,
): Promise<FinishedClaims> {
  const forgotten: NodeRow[] = [];
  const sum = { gone: 0, next: Number.MAX_SAFE_INTEGER, failed: 0, failure: undefined as unknown };
  for (const claim of claimed) {
    try {
      const settled = await aroundRecords(core, space, [claim], (left) => settle([claim], left));
      forgotten.push(...settled.forgotten);
      sum.gone += settled.gone;
      sum.next = Math.min(sum.next, settled.next);
      sum.failed += settled.failed;
      if (settled.failed > 0) sum.failure ??= settled.failure;
    } catch (error) {
      if (!isDamage(error)) throw error;
      sum.failed += 1;
      sum.failure ??= error;
    }
  }
  return { forgotten, ...sum };
}

interface SettledClaims extends Pick<Claims, 'claimedAt'> {
  readonly claims: readonly Claim[];
  /** generations whose objects are deleted */
  readonly deleted: ReadonlySet<Generation>;
  readonly uploads: UploadKind;
  readonly left?: LeftRecords | undefined;
}

/** Forgets the rows whose objects were deleted. The sweep may retry the others, after those that have waited longer. */
export async function settleClaims(
  tx: SpaceTransaction,
  { claims, claimedAt, deleted, uploads, left }: SettledClaims,
): Promise<Pick<FinishedClaims, 'forgotten' | 'gone' | 'next'>> {
  const rows = await tx.findNodes(claims.map(({ hash }) => hash));
  const forgotten: NodeRow[] = [];
  for (const [index, { generation, storage }] of claims.entries()) {
    const row = rows[index];
    // A lease revived the row, or another pass finished it.
    if (row?.state !== 'claimed' || row.generation !== generation) continue;
    if (storage !== 'object' || deleted.has(generation)) forgotten.push(row);
    else await tx.update('node', row, { ...row, claimHeldUntil: tx.now });
  }
  const next = await forgetAll(tx, forgotten, claimedAt, { uploads, left });
  return { forgotten, gone: rows.filter((row) => row === undefined).length, next };
}

/** `deletedAfter`: ms; the objects were deleted then or later. Resolves with the first lease expiry of children that are free now. */
async function forgetAll(
  tx: SpaceTransaction,
  rows: readonly NodeRow[],
  deletedAfter: number,
  { uploads, left }: Pick<SettledClaims, 'uploads' | 'left'>,
): Promise<number> {
  const expiries = await findUrlExpiries(tx, rows, uploads);
  for (const [index, { generation }] of rows.entries()) {
    const urlExpiresAt = expiries[index] ?? 0;
    // A URL that was valid at that instant may have written the object again since, or still may.
    if (urlExpiresAt > deletedAfter)
      await tx.insert('discard', { generation, dueAt: urlExpiresAt, urlExpiresAt });
    if (!left?.has(generation)) await tx.delete('content', generation);
  }
  const freed = await removeNodesWithEdges(tx, rows);
  return Math.min(Number.MAX_SAFE_INTEGER, ...freed.map(({ leaseExpiresAt }) => leaseExpiresAt));
}
