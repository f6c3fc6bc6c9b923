/** Which generations have a record. */
import type { Generation, ObjectKey } from '../../core/model.ts';
import type { SqlitePackReads } from './packs/pack-reads.ts';
import { hexToBytes } from './rows.ts';
import type { ReadStatements } from './statements.ts';

/** Looks only by generation: one database holds all Spaces, and no generation is given twice. */
export function findKnownGenerations(
  { isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed }: ReadStatements,
  packs: SqlitePackReads,
  keys: readonly Pick<ObjectKey, 'generation'>[],
): ReadonlySet<Generation> {
  const known = new Set<Generation>();
  for (const { generation } of keys) {
    const key = hexToBytes(generation);
    const isKnown = [isUploadKnown, isContentKnown, isDiscardKnown, isPackNamed].some(
      (sql) => sql.get(key) !== null,
    );
    if (isKnown || packs.isKnown(generation)) known.add(generation);
  }
  return known;
}

/** Whether the PUT of this generation was ever recorded as complete, so that its object is needed. */
export function isFinished(
  { isUploadKnown, isContentKnown }: ReadStatements,
  packs: SqlitePackReads,
  generation: Generation,
): boolean {
  const key = hexToBytes(generation);
  const verdict = isUploadKnown.get(key)?.verdict;
  if (typeof verdict === 'number' || isContentKnown.get(key) !== null) return true;
  return packs.isFinished(generation);
}
