/**
 * Strays: objects that no record knows, and never will. Whatever store can list its objects judges them by this one rule, in which
 * the order matters: an object is listed first, and its records are looked for afterwards.
 */
import { createdAtOf } from './generation.ts';
import type { ObjectKey } from './model.ts';
import type { FindKnown } from './ports.ts';

/** A generation has its record before its URL is given out; what is unknown so long after its creation stays unknown. */
export const STRAY_AGE_MS = 24 * 3_600_000;

/** Of objects that were listed before this call those that may be deleted: created at `oldAt` or before, and without a record. */
export async function findStrays(
  listed: readonly ObjectKey[],
  oldAt: number,
  findKnown: FindKnown,
): Promise<readonly ObjectKey[]> {
  const old = listed.filter(({ generation }) => createdAtOf(generation) <= oldAt);
  if (old.length === 0) return [];
  const known = await findKnown(old);
  return old.filter(({ generation }) => !known.has(generation));
}
