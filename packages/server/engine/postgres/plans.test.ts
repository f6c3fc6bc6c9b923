/**
 * What a statement costs must not grow with the tables: PostgreSQL's own plans, on full and analysed tables and with the planner's
 * settings as it comes, say that none scans one, and that no request looks outside its Space.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { BACKGROUND_STATEMENTS, CONTROL_STATEMENTS, SPACE_STATEMENTS, SQL } from './statements.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';
import type { PostgresConnection } from './wire/connection.ts';

const START_MS_MAX = 60_000;

/** 40 Spaces of 500 rows in every table. */
const FILL = `
  CREATE TEMPORARY TABLE ids AS SELECT md5('space' || s)::uuid AS space, sha256(convert_to(s || ' ' || n, 'UTF8')) AS hash,
    decode(md5(s || ' ' || n), 'hex') AS generation, n FROM generate_series(1, 40) AS s, generate_series(1, 500) AS n;
  INSERT INTO spaces SELECT md5('space' || s)::uuid, 'app', 'space' || s FROM generate_series(1, 5000) AS s;
  INSERT INTO nodes SELECT space, hash, generation, 100, 134, 1000, 1000 + n * 1000, n % 3, 0, CASE WHEN n % 50 = 0 THEN n ELSE 0 END,
    CASE WHEN n % 50 = 1 THEN n ELSE 0 END, 0, CASE n % 50 WHEN 0 THEN 0 WHEN 1 THEN 3 WHEN 2 THEN 2 ELSE 1 END, false,
    n % 3 = 0 AND n % 50 > 1, n % 2 = 0, 'text/plain', '' FROM ids;
  INSERT INTO loose_edges SELECT space, hash, 1 FROM ids;
  INSERT INTO uploads (space, hash, generation, created_at, url_expires_at, touched_at, active_at)
    SELECT space, hash, generation, n, n, n, n FROM ids;
  INSERT INTO contents SELECT space, generation, 134, 0, hash, NULL FROM ids;
  INSERT INTO discards SELECT space, generation, n, 0 FROM ids;
  INSERT INTO domains SELECT DISTINCT space, 'domain' || n % 20, 5, 0 FROM ids;
  INSERT INTO balances SELECT space, 'domain' || n % 5, hash, 1, n FROM ids;
  INSERT INTO balance_history SELECT space, 'domain' || n % 5, hash, n, n + 1, 1, n FROM ids;
  INSERT INTO root_ref_commits SELECT space, 'domain' || n % 5, hash, hash, n FROM ids;
  INSERT INTO usage_counters SELECT DISTINCT space, n % 16, 1, 1, 1, 1, 1, 1, 0 FROM ids;
  ANALYZE;
`;

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly Plan[];
}

let databases: TestDatabases;
let close: () => Promise<void>;
let connection: PostgresConnection;
let giveBack: () => void;

beforeAll(async () => {
  databases = await openDatabases();
  const opened = await openInstance(await databases.createDatabase());
  close = opened.close;
  await new Promise<void>((resolve, reject) => {
    const lending = opened.pool.lend(async (lent) => {
      connection = lent;
      await connection.withPatience(START_MS_MAX, () =>
        connection.script(`SET statement_timeout = 0; ${FILL}`),
      );
      // What every session of the engine has, but for the switch that would hide a missing index.
      await connection.script('SET enable_seqscan = on');
      resolve();
      await new Promise<void>((done) => {
        giveBack = done;
      });
    });
    lending.catch(reject);
  });
}, START_MS_MAX);
afterAll(async () => {
  giveBack();
  await close();
  await databases.close();
});

async function planOf(sql: string): Promise<Plan[]> {
  const count = Math.max(0, ...[...sql.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)));
  const values = Array.from({ length: count }, () => 'NULL').join(', ');
  await connection.script(`PREPARE explained AS ${sql}`);
  try {
    const execute = `EXPLAIN (FORMAT JSON) EXECUTE explained${count === 0 ? '' : `(${values})`}`;
    const { rows } = await connection.script(execute);
    const explained = rows[0]?.['QUERY PLAN'] as readonly { Plan: Plan }[];
    return explained.flatMap(({ Plan: plan }) => flatten(plan));
  } finally {
    await connection.script('DEALLOCATE explained');
  }
}

function flatten(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(flatten)];
}

const scansOf = (plan: readonly Plan[]): Plan[] =>
  plan.filter((step) => step['Node Type'] === 'Seq Scan' || step['Index Name'] !== undefined);

/** Every look at a table is by an index and a condition on it. */
function expectNoScan(plan: readonly Plan[]): void {
  for (const step of scansOf(plan)) {
    expect(step['Node Type']).not.toBe('Seq Scan');
    expect({ index: step['Index Name'], condition: step['Index Cond'] ?? 'none' }).not.toMatchObject({
      condition: 'none',
    });
  }
}

describe('statements of a Space', () => {
  for (const [name, sql] of Object.entries(SPACE_STATEMENTS)) {
    test(`${name} looks at its Space alone, by an index`, async () => {
      const plan = await planOf(sql);
      expectNoScan(plan);
      for (const { 'Index Name': index, 'Index Cond': condition } of scansOf(plan)) {
        expect(`${index}: ${condition}`).toMatch(/: \(*(?:\w+\.)?space = /);
      }
    });
  }
});

describe('statements of the background', () => {
  for (const [name, sql] of Object.entries(BACKGROUND_STATEMENTS)) {
    test(`${name} looks by an index, from a point on`, async () => {
      expectNoScan(await planOf(sql));
    });
  }
});

test('the statements left over touch no table of a Space', () => {
  const tables = /\b(?:FROM|INTO|UPDATE|JOIN) (?!transaction_timestamp)/;
  for (const sql of Object.values(CONTROL_STATEMENTS)) expect(sql).not.toMatch(tables);
  const groups = [SPACE_STATEMENTS, BACKGROUND_STATEMENTS, CONTROL_STATEMENTS];
  const names = groups.flatMap((group) => Object.keys(group));
  expect(Object.keys(SQL).sort()).toEqual([...names].sort());
});

test('the check itself sees a scan, and a look outside the Space', async () => {
  const scan = await planOf('SELECT * FROM nodes WHERE size = $1');
  expect(scansOf(scan).map((step) => step['Node Type'])).toContain('Seq Scan');
  const whole = await planOf(
    'SELECT hash FROM nodes WHERE lease_counted AND lease_expires_at <= $1 AND space > $2 ORDER BY space LIMIT 5',
  );
  expect(scansOf(whole)[0]?.['Index Cond']).not.toMatch(/space = /);
});
