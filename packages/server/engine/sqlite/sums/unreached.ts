/** Finds tables that have a row which no Space or domain leads to. */

/** From each owner to the next is one look, however many rows have it. */
const unreachedIn = (
  table: string,
  column: string,
  owners: string,
): string => `SELECT '${table}' AS name WHERE EXISTS (
    WITH RECURSIVE met (id) AS (SELECT min(${column}) FROM ${table} UNION ALL
      SELECT (SELECT min(${column}) FROM ${table} WHERE ${column} > met.id) FROM met WHERE met.id IS NOT NULL)
    SELECT 1 FROM met WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM ${owners}))`;

export const FIND_UNREACHED: string = [
  ...['nodes', 'loose_edges', 'uploads', 'domains'].map((table) => unreachedIn(table, 'space', 'spaces')),
  ...['balances', 'balance_history', 'root_ref_commits'].map((table) =>
    unreachedIn(table, 'domain', 'domains'),
  ),
].join(' UNION ALL ');
