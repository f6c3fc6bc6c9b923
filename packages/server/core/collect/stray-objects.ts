/** Strays: objects without a record, now or ever. The order matters: a store lists an object first and looks for its records afterwards. */
import { createdAtOf } from '../generation.ts';
import type { ObjectKey } from '../model.ts';
import type { FindKnown } from '../stray-ports.ts';

/** A generation's record is durable before its URL is given out: one without a record at this age never gets one. */
export const STRAY_AGE_MS = 24 * 3_600_000;

/** Returns the objects that may be deleted: created at `oldAt` or before, and without a record. List them before this call. */
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
