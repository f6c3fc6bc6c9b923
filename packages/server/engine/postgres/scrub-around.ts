/** A page of the scrub where rows are damaged: read in one Space, around the rows that cannot be read. */
import type { Hash } from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import type { ScrubItem, ScrubPosition } from '../../core/upkeep-ports.ts';
import { joinedContentFromSql, nodeFromSql } from './rows.ts';
import { findSpaceInSql, spaceKeyFromSql } from './space-names.ts';
import { inspectSpace } from './space-snapshot.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { hexToBytea, type SqlRow } from './wire/sql-values.ts';

const SCRUBBING = 'scrubbing';
/** after all hashes of a Space */
const END = 'f'.repeat(64);

const FIND_SPACE =
  'SELECT space, app_id, space_id FROM spaces WHERE space >= $1::uuid ORDER BY space LIMIT 1';
const FIND_NEXT_SPACE =
  'SELECT space, app_id, space_id FROM spaces WHERE space > $1::uuid ORDER BY space LIMIT 1';

export const scrubItemFromSql = (space: Space, key: string, row: SqlRow): ScrubItem => ({
  space,
  node: nodeFromSql(key, row),
  content: joinedContentFromSql(key, row),
  ...(row.row_sum === null ? { isUnsummed: true } : {}),
});

/** From the first node after `hash` in the Space `key`, or from the first Space after it that has nodes. */
export async function findNodesAround(
  pool: PostgresPool,
  { key, hash }: { readonly key: string; readonly hash: Hash },
  limit: number,
  clock: number | null,
): Promise<{ items: readonly ScrubItem[]; next: ScrubPosition | undefined }> {
  let [found] = (await pool.read(SCRUBBING, FIND_SPACE, [key])).rows;
  while (found !== undefined) {
    const at = spaceKeyFromSql(found.space);
    const space = findSpaceInSql(found) as Space;
    const start = at === key ? hash : undefined;
    const page = await pool.lend((connection) =>
      inspectSpace(connection, at, clock, (snapshot) => snapshot.readNodesAround(start, limit)),
    );
    if (page.nodes.length + page.unreadable.length > 0) {
      const items: ScrubItem[] = [];
      for (const { row } of page.nodes) {
        const wanted = [at, hexToBytea(row.hash)];
        const [node] = (await pool.read(SCRUBBING, SQL.findNodeWithContent, wanted, space)).rows;
        if (node === undefined) continue;
        items.push(scrubItemFromSql(space, at, node));
      }
      return { items, next: `${at}.${page.next ?? END}` };
    }
    [found] = (await pool.read(SCRUBBING, FIND_NEXT_SPACE, [at])).rows;
  }
  return { items: [], next: undefined };
}
