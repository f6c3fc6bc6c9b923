/** Packs that the server makes itself, of what it has stored already. */
import { PACK_HEADER_BYTES, PACK_ID_BYTES, RECORD_HEADER_BYTES } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { createPackGeneration, makeGenerationDigits } from '../generation.ts';
import { assertInvariant } from '../invariant.ts';
import type { Generation, Space } from '../model.ts';
import type { PackRow, PackUse } from '../pack-model.ts';
import { PACK_GROUP_RECORDS } from '../pack-ports.ts';
import type { SpaceTransaction } from '../ports.ts';
import { NOTHING_STORED } from '../quotas.ts';
import { sha256 } from '../signer.ts';
import { hasWrittenNothing } from '../store-failure.ts';

/** How the use of a pack follows from what happens to its records. Pure. */
export const UNUSED: PackUse = { liveRecords: 0, liveBytes: 0, firstDeadAt: 0 };

export interface UseChange {
  readonly liveRecords: number;
  /** stored bytes */
  readonly liveBytes: number;
  /** a record became live, even if it, or another, died too */
  readonly hasCome: boolean;
  /** a record stopped being live */
  readonly hasDied: boolean;
}

type PackFacts = Pick<PackRow, 'state' | 'bytes' | 'isDiscarded'>;

/** `pack` is as it is after the transaction, `now` its instant. Throws InvariantViolation. */
export function changeUse(use: PackUse, pack: PackFacts, change: UseChange, now: number): PackUse {
  assertInvariant(!(change.hasCome && pack.isDiscarded), 'no record comes to a pack that is discarded');
  const changed: PackUse = {
    liveRecords: use.liveRecords + change.liveRecords,
    liveBytes: use.liveBytes + change.liveBytes,
    firstDeadAt: use.firstDeadAt,
  };
  const dead = countDeadBytes(pack, changed);
  if (pack.state === 'judged' && dead === 0) return { ...changed, firstDeadAt: 0 };
  // Records that were rejected, or that the Space had already, are dead once the pack is judged.
  const isDying = change.hasDied || (changed.liveRecords > 0 && dead > 0);
  return isDying && changed.firstDeadAt === 0 ? { ...changed, firstDeadAt: now } : changed;
}

/** Bytes that compaction would free; 0: the pack is not to be compacted. */
export function countBytesToCompact(pack: PackFacts, use: PackUse): number {
  const isWanted = !pack.isDiscarded && use.liveRecords > 0 && use.firstDeadAt > 0;
  return isWanted ? countDeadBytes(pack, use) : 0;
}

/** 0 until the pack is judged. */
function countDeadBytes({ state, bytes }: PackFacts, { liveRecords, liveBytes }: PackUse): number {
  if (state !== 'judged' || bytes === undefined) return 0;
  return Math.max(0, bytes - PACK_HEADER_BYTES - liveRecords * RECORD_HEADER_BYTES - liveBytes);
}

export function createOwnPackGeneration(core: Core, now: number): Generation {
  return createPackGeneration(now, makeGenerationDigits(core.random));
}

/** The row of a pack whose object is durable: judged, because all of its records were proven. */
export function makeOwnPack(
  core: Core,
  now: number,
  object: { readonly generation: Generation; readonly bytes: number; readonly records: number },
): PackRow {
  const { generation, bytes, records } = object;
  return {
    id: Buffer.from(core.random.bytes(PACK_ID_BYTES)).toString('hex'),
    generation,
    state: 'judged',
    ...{ createdAt: now, urlExpiresAt: 0, touchedAt: now },
    asked: sha256(generation),
    bytes,
    publishedCount: records,
    reserved: NOTHING_STORED,
    isDiscarded: false,
  };
}

/** A part of what moves into a pack of the server's own. */
export interface GroupOfMoves<Move> {
  readonly pack: PackRow;
  readonly isFirst: boolean;
  readonly moves: readonly Move[];
}

/**
 * Moves records into a pack whose object is durable, group by group: `move` is the transaction of one. If the first one moves nothing
 * because it fails, nothing names the object, which is deleted: whatever makes it fail would leave one object after the other.
 * Resolves how many were moved.
 */
export async function moveInGroups<Move>(
  core: Core,
  space: Space,
  pack: PackRow,
  moves: readonly Move[],
  move: (group: GroupOfMoves<Move>) => Promise<number>,
): Promise<number> {
  let moved = 0;
  for (let from = 0; from < moves.length; from += PACK_GROUP_RECORDS) {
    const group = { pack, isFirst: from === 0, moves: moves.slice(from, from + PACK_GROUP_RECORDS) };
    try {
      moved += await move(group);
    } catch (error) {
      if (group.isFirst && hasWrittenNothing(error)) await core.content.delete(space, [pack.generation]);
      throw error;
    }
  }
  return moved;
}

/**
 * Whether records may move into the pack in this transaction, before any does. Its row comes with the first of them: the sweep would
 * take a judged pack without a live record. It takes the pack all the same if all that came with the first groups has gone meanwhile.
 */
export async function takesRecords(
  tx: SpaceTransaction,
  { pack, isFirst }: Omit<GroupOfMoves<unknown>, 'moves'>,
): Promise<boolean> {
  if (isFirst) {
    await tx.insert('pack', pack);
    return true;
  }
  const standing = await tx.packs.findPack(pack.id);
  return standing !== undefined && !standing.isDiscarded;
}
