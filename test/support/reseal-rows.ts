/**
 * Gives rows that a test has changed the sums of what they say now: they are wrong, and nothing but a recount or their bytes tells. Rows
 * whose sums are wrong are the matter of `proof/row-rot`.
 */
import type { Database } from 'bun:sqlite';
import { fillSums } from '../../packages/server/engine/sqlite/sums/fill-sums.ts';

export function changeRows(database: Database, sql: string): number {
  const { changes } = database.run(sql);
  database.run('BEGIN IMMEDIATE');
  fillSums(database);
  database.run('COMMIT');
  return changes;
}
