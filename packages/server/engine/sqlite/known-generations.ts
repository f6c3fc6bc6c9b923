/** Finds the generations that have a record. */
import type { Generation, ObjectKey } from '../../core/model.ts';
import { hexToBytes } from './rows.ts';
import type { ReadStatements } from './statements.ts';

/** Looks only by generation: one database holds all Spaces, and no generation is given twice. */
export function findKnownGenerations(
  { isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed, isPackKnown }: ReadStatements,
  keys: readonly Pick<ObjectKey, 'generation'>[],
): ReadonlySet<Generation> {
  const records = [isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed, isPackKnown];
  const isKnown = (key: Uint8Array): boolean => records.some((sql) => sql.get(key) !== null);
  const known = keys.filter(({ generation }) => isKnown(hexToBytes(generation)));
  return new Set(known.map(({ generation }) => generation));
}

/** Whether the PUT of this generation, or its pack, was ever recorded as complete, so that its object is needed. */
export function isFinished(
  { isUploadKnown, isContentKnown, isPackKnown }: ReadStatements,
  generation: Generation,
): boolean {
  const key = hexToBytes(generation);
  const verdict = isUploadKnown.get(key)?.verdict;
  if (typeof verdict === 'number' || isContentKnown.get(key) !== null) return true;
  return typeof isPackKnown.get(key)?.bytes === 'number';
}
