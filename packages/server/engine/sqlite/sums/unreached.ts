/** Finds tables that have a row which no Space or domain leads to. */
import type { Database } from 'bun:sqlite';

/** From each owner to the next is one look, however many rows have it. ?1 the owner before, ?2 how many */
const stepOf = (
  table: string,
  column: string,
  owners: string,
): string => `WITH RECURSIVE met (id) AS (SELECT min(${column}) FROM ${table} WHERE ${column} > ?1 UNION ALL
      SELECT (SELECT min(${column}) FROM ${table} WHERE ${column} > met.id) FROM met WHERE met.id IS NOT NULL LIMIT ?2)
    SELECT max(id) AS last, count(id) AS count, total(id NOT IN (SELECT id FROM ${owners})) AS unreached FROM met WHERE id IS NOT NULL`;

const TABLES: readonly (readonly [table: string, column: string, owners: string])[] = [
  ...['nodes', 'loose_edges', 'uploads', 'domains'].map((table) => [table, 'space', 'spaces'] as const),
  ...['balances', 'balance_history', 'root_ref_commits'].map(
    (table) => [table, 'domain', 'domains'] as const,
  ),
];

/** Resolves with the tables. Everything else of the thread has its turn after each `ownersOfStep`. */
export async function findUnreachedTables(
  database: Database,
  ownersOfStep = 1_000,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const [table, column, owners] of TABLES) {
    using step = database.prepare<
      { last: number; count: number; unreached: number },
      [bigint | number, number]
    >(stepOf(table, column, owners));
    for (let after: bigint | number = -(2n ** 63n); ; ) {
      const met = step.get(after, ownersOfStep);
      if (met !== null && met.unreached > 0) found.push(table);
      if (met === null || met.unreached > 0 || met.count < ownersOfStep) break;
      after = met.last;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return found;
}
