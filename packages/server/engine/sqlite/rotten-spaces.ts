/** Finds Spaces with rotten nodes by the index of those rows, so Spaces without any cost nothing. */
import { ROTTEN_COUNT_MAX, type RottenSpace } from '../../core/upkeep-ports.ts';
import { isSpaceSound, spaceOf } from './space-directory.ts';
import type { ReadStatements } from './statements.ts';

export function findRottenSpaces(
  sql: ReadStatements,
  after: string | undefined,
  limit: number,
): readonly RottenSpace[] {
  const found: RottenSpace[] = [];
  for (let space = Number(after ?? 0); found.length < limit; ) {
    const next = sql.nextSpaceRotten.get(space);
    if (next === null) break;
    space = next.space as number;
    const nodes = (sql.countRotten.get(space, ROTTEN_COUNT_MAX)?.count as number | undefined) ?? 0;
    const names = sql.findSpaceById.get(space);
    // The statements do not share a transaction: all of them may have been healed in between.
    if (nodes === 0 || names === null || !isSpaceSound(names)) continue;
    found.push({
      space: spaceOf(names),
      nodes,
      position: String(space),
    });
  }
  return found;
}
