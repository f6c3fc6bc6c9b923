/** How the use of a pack follows from what happens to its records. Pure. */
import { PACK_HEADER_BYTES, RECORD_HEADER_BYTES } from '@holdfast/protocol';
import { assertInvariant } from '../invariant.ts';
import type { PackRow, PackUse } from '../pack-model.ts';

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
