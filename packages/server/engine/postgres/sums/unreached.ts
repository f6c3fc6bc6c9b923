/** Finds tables that have a row which no Space or domain leads to. */

/** The key of an owner leads the primary key of its table: from each to the next is one look, however many rows have it. */
function unreachedIn(table: string, owners: string, key: readonly string[]): string {
  const list = (of: string): string => key.map((column) => `${of}.${column}`).join(', ');
  const next = (after: string): string =>
    `(SELECT ${list('t')} FROM ${table} AS t ${after} ORDER BY ${list('t')} LIMIT 1)`;
  return `SELECT '${table}' AS name WHERE EXISTS (
    WITH RECURSIVE met AS (${next('')} UNION ALL
      SELECT further.* FROM met CROSS JOIN LATERAL ${next(`WHERE (${list('t')}) > (${list('met')})`)} AS further)
    SELECT FROM met WHERE NOT EXISTS (SELECT FROM ${owners} AS o WHERE (${list('o')}) = (${list('met')}) OFFSET 0))`;
}

export const FIND_UNREACHED: string = [
  ...['nodes', 'loose_edges', 'uploads', 'domains'].map((table) => unreachedIn(table, 'spaces', ['space'])),
  ...['balances', 'balance_history', 'root_ref_commits'].map((table) =>
    unreachedIn(table, 'domains', ['space', 'domain']),
  ),
].join(' UNION ALL ');
