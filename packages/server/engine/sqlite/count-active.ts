/** How many uploads and packs of a Space have a URL that is good: a limit is on all of them together. */
import type { WriteScope } from './write-scope.ts';

/** Counted no further than `atMost`. */
export function countActive(scope: WriteScope, space: number, atMost: number): number {
  const { activeUploads, now, sql } = scope;
  const known = activeUploads.find(space, now);
  if (known !== undefined) return Math.min(known, atMost);
  let count = 0;
  for (const statement of [sql.countActiveUploads, sql.countActivePacks]) {
    count += Number(scope.find(statement, space, now, atMost - count)?.count ?? 0);
    if (count >= atMost) return count;
  }
  const expiries = [sql.findNextUploadExpiry, sql.findNextPackExpiry]
    .map((statement) => scope.find(statement, space, now)?.url_expires_at as number | undefined)
    .filter((at) => at !== undefined);
  activeUploads.learn(space, now, count, expiries.length === 0 ? undefined : Math.min(...expiries));
  return count;
}
