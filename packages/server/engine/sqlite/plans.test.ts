/** The cost of the queries of a request must not grow with the Space: SQLite's own plans show that none scans a table. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { migrate } from './migrations.ts';
import { explainableStatements } from './statements.ts';

const database = new Database(':memory:');
migrate(database, ':memory:');
afterAll(() => database.close());

/** Walks that are in key order from a given key on and stop at their limit. */
const ALLOWED =
  /^(SEARCH|MULTI-INDEX|INDEX \d|CO-ROUTINE|LIST SUBQUERY|(CORRELATED )?SCALAR SUBQUERY|SCAN CONSTANT ROW|SCAN \(subquery)/;

function planOf(sql: string): string[] {
  const parameters = new Set([...sql.matchAll(/\?(\d+)/g)].map((match) => Number(match[1])));
  const rows = database.query<{ detail: string }, number[]>(`EXPLAIN QUERY PLAN ${sql}`);
  return rows.all(...Array.from({ length: parameters.size }, () => 1)).map(({ detail }) => detail);
}

/** Only beside damage. */
const WHOLE = ['listSpaceNames'];

for (const [name, sql] of explainableStatements()) {
  if (WHOLE.includes(name)) continue;
  test(`${name} neither scans nor sorts`, () => {
    for (const step of planOf(sql)) {
      expect(step).toMatch(ALLOWED);
      expect(step).not.toContain('TEMP B-TREE');
    }
  });
}

test('no statement shows a parameter to the planner, which would plan anew at each run', () => {
  for (const [name, sql] of explainableStatements()) {
    expect([name, sql.match(/(?<![+\d])\?\d*/)]).toEqual([name, null]);
  }
});

test('the check itself finds a scan and a sort', () => {
  const scan = planOf('SELECT * FROM nodes WHERE size = 1');
  expect(scan.every((step) => ALLOWED.test(step))).toBe(false);
  const sort = planOf('SELECT * FROM nodes WHERE space = 1 ORDER BY size');
  expect(sort.some((step) => step.includes('TEMP B-TREE'))).toBe(true);
});
