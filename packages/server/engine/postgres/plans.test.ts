/**
 * The cost of a statement must not grow with the tables: PostgreSQL's own plans, with the planner's default settings, show that
 * none scans one, and that no request looks outside its Space or at all of it. On full tables that were analysed, and on tables
 * that were filled after the session had planned its statements for empty ones, with no ANALYZE since.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { readAppTotals } from './app-totals.ts';
import { BACKGROUND_STATEMENTS, CONTROL_STATEMENTS, SPACE_STATEMENTS, SQL } from './statements.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';
import type { PostgresConnection } from './wire/connection.ts';

const START_MS_MAX = 300_000;

/** 40 Spaces of 500 rows in every table. */
const FILL = `
  CREATE UNLOGGED TABLE ids AS SELECT md5('space' || s)::uuid AS space, sha256(convert_to(s || ' ' || n, 'UTF8')) AS hash,
    decode(md5(s || ' ' || n), 'hex') AS generation, n FROM generate_series(1, 40) AS s, generate_series(1, 500) AS n;
  INSERT INTO spaces SELECT md5('space' || s)::uuid, 'app' || s % 500, 'space' || s FROM generate_series(1, 5000) AS s;
  INSERT INTO nodes SELECT space, hash, generation, 100, 134, 1000, 1000 + n * 1000, n % 3, 0, CASE WHEN n % 50 = 0 THEN n ELSE 0 END,
    CASE WHEN n % 50 = 1 THEN n ELSE 0 END, 0, CASE n % 50 WHEN 0 THEN 0 WHEN 1 THEN 3 WHEN 2 THEN 2 ELSE 1 END, false,
    n % 3 = 0 AND n % 50 > 1, n % 2 = 0, 'text/plain', '' FROM ids;
  INSERT INTO upload_permits SELECT DISTINCT space, n % 64 FROM ids;
  INSERT INTO loose_edges SELECT space, hash, 1 FROM ids;
  INSERT INTO uploads (space, hash, generation, created_at, url_expires_at, touched_at, active_at)
    SELECT space, hash, generation, n, n, n, n FROM ids;
  INSERT INTO contents SELECT space, generation, 134, 0, hash, NULL, CASE WHEN n % 2 = 0 THEN decode(md5(space || ' ' || n / 20), 'hex') END,
    n * 100, 80, 1 FROM ids;
  INSERT INTO packs (space, generation, id, version, created_at, url_expires_at, touched_at, bytes, published_count, reserved_bytes,
    reserved_nodes, live_records, live_bytes, first_dead_at, state, discarded, asked) SELECT space, generation, generation, 1, n, n, n, 1000, 5, CASE WHEN n % 50 = 0 THEN 100 ELSE 0 END, 0,
    CASE WHEN n % 3 = 0 THEN 0 ELSE 10 END, n % 12 * 50, n % 5, n % 4 - n % 4 / 3, n % 20 = 0, hash FROM ids;
  INSERT INTO pack_verdicts SELECT space, generation, hash, '[]', NULL, NULL FROM ids;
  INSERT INTO discards SELECT space, generation, n, 0 FROM ids;
  INSERT INTO domains SELECT space, 'domain' || n, 5, 0 FROM ids;
  INSERT INTO balances SELECT space, 'domain' || n % 5, hash, 1, n FROM ids;
  INSERT INTO balance_history SELECT space, 'domain' || n % 5, hash, n, n + 1, 1, n FROM ids;
  INSERT INTO root_ref_commits SELECT space, 'domain' || n % 5, hash, hash, n FROM ids;
  INSERT INTO commit_marks SELECT space, 'domain' || n % 5, n, n, n FROM ids;
  INSERT INTO usage_counters SELECT DISTINCT space, n % 16, 1, 1, 1, 1, 1, 1, 0 FROM ids;
  INSERT INTO app_totals SELECT 'app' || n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1000, 2000) AS n;
`;

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly Plan[];
}

const STATEMENTS = Object.entries({ ...SPACE_STATEMENTS, ...BACKGROUND_STATEMENTS });

/** Its one column is a sum over the Space too. */
const BY_NAME = 'root_ref_commits_by_name';

/**
 * Few rows of a Space, or sums over all that are received in it, and the walks of a clock that stepped back and of a row that is mended.
 */
const READ_WHOLE =
  /^(?:spaces|usage_counters|domains|packs_reserving|uploads_received|packs_received)_?|^(?:readCounters|countHolders):nodes_pkey/;

let databases: TestDatabases;
let stage: Awaited<ReturnType<typeof openStage>>;
beforeAll(async () => {
  databases = await openDatabases();
  stage = await openStage();
  await stage.fill(FILL);
}, START_MS_MAX);
afterAll(async () => {
  await stage.close();
  await databases.close();
});

const explain = async (session: PostgresConnection, name: string, sql: string): Promise<Plan[]> => {
  const count = Math.max(0, ...[...sql.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)));
  const values = count === 0 ? '' : `(${Array.from({ length: count }, () => 'NULL').join(', ')})`;
  const { rows } = await session.script(`EXPLAIN (FORMAT JSON) EXECUTE "${name}"${values}`);
  const explained = rows[0]?.['QUERY PLAN'] as readonly { Plan: Plan }[];
  return explained.flatMap(({ Plan: plan }) => flatten(plan));
};

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

/** The engine's session, and another that fills the tables. */
async function openStage() {
  const url = await databases.createDatabase();
  const engine = await openInstance(url, { connectionsMax: 1, limits: { plansMs: 0 } });
  const filler = await openInstance(url, { connectionsMax: 1 });
  const fill = (sql: string) =>
    filler.pool.lend((lent) =>
      lent.withPatience(START_MS_MAX, () => lent.script(`SET LOCAL statement_timeout = 0; ${sql}`)),
    );
  // No ANALYZE but those of the test.
  await fill(`DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r'
      AND relnamespace = 'public'::regnamespace LOOP
    EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name); END LOOP; END $$`);
  await engine.pool.lend(async (session) => {
    // The settings of every session of the engine, except the one that would hide a missing index.
    await session.script('SET enable_seqscan = on');
    for (const [name, sql] of STATEMENTS) {
      await session.script(`PREPARE "${name}" AS ${sql}`);
      await explain(session, name, sql);
    }
  });
  return {
    fill,
    /** on the same session, lent again as for the next request */
    plan: (name: string, sql: string) => engine.pool.lend((session) => explain(session, name, sql)),
    session: engine.pool,
    close: () => Promise.all([engine.close(), filler.close()]),
  };
}

// In this order: what ANALYZE has learnt is not forgotten.
for (const [kind, prepare] of [
  ['filled since they were planned for', 'SELECT 1'],
  ['full and analysed', 'ANALYZE'],
] as const) {
  describe(`on tables that are ${kind}`, () => {
    beforeAll(async () => {
      await stage.fill(prepare);
    }, START_MS_MAX);

    for (const [name, sql] of Object.entries(SPACE_STATEMENTS)) {
      test(`${name} reads only a part of its Space, by an index`, async () => {
        const plan = await stage.plan(name, sql);
        expectNoScan(plan);
        for (const { 'Index Name': index = '', 'Index Cond': condition } of scansOf(plan)) {
          if (index === BY_NAME) continue;
          expect(`${index}: ${condition}`).toMatch(/: \(*(?:\w+\.)?space = /);
          if (READ_WHOLE.test(index) || READ_WHOLE.test(`${name}:${index}`)) continue;
          expect(`${index}: ${condition}`).toContain(' AND ');
        }
      });
    }

    for (const [name, sql] of Object.entries(BACKGROUND_STATEMENTS)) {
      // With scans on it reads a table this small whole: whale-plans.test.ts looks at it as it is planned.
      if (name.startsWith('takeBalances')) continue;
      test(`${name} reads an index from a given point on`, async () => {
        expectNoScan(await stage.plan(name, sql));
      });
    }

    // During a long snapshot the index keeps the entries of collected rows, so a claim starts after them.
    test('findCandidates reads the index from an expiry on', async () => {
      const [look] = scansOf(await stage.plan('findCandidates', SQL.findCandidates));
      expect(look?.['Index Cond']).toContain('(lease_due_at >= ');
    });

    for (const name of ['findSpacesToPack', 'findContentsToPack'] as const) {
      test(`${name} reads contents by the index of those that are to be packed alone`, async () => {
        const looks = scansOf(await stage.plan(name, SQL[name]));
        const indexes = looks
          .filter((step) => step['Relation Name'] === 'contents')
          .map((step) => step['Index Name']);
        expect(new Set(indexes)).toEqual(new Set(['contents_to_pack']));
      });
    }
  });
}

test('an App is summed in pages, to the same sums', async () => {
  const paged = await readAppTotals(stage.session, 'app1', 3);
  expect(paged).toMatchObject({ spaces: 10, nodeCount: 16 });
  expect(await readAppTotals(stage.session, 'app1')).toEqual(paged);
});

test('all other statements touch no table of a Space', () => {
  const tables = /\b(?:FROM|INTO|UPDATE|JOIN) (?!transaction_timestamp)/;
  for (const sql of Object.values(CONTROL_STATEMENTS)) expect(sql).not.toMatch(tables);
  const groups = [SPACE_STATEMENTS, BACKGROUND_STATEMENTS, CONTROL_STATEMENTS];
  const names = groups.flatMap((group) => Object.keys(group));
  expect(Object.keys(SQL).sort()).toEqual([...names].sort());
});

test.each([
  ...['lockDomains', 'lockNodes', 'lockUploads', 'findCommits', 'findBalances', 'findNodesWithContent'],
] as (keyof typeof SQL)[])('%s neither sorts its list nor keeps it: it seeks, row by row', async (name) => {
  const steps = (await stage.plan(name, SQL[name])).map((step) => step['Node Type']);
  expect(steps).toEqual(expect.arrayContaining(['Nested Loop', 'Function Scan', 'Index Scan']));
  expect(steps.filter((step) => /Sort|Aggregate|Unique|CTE|Materialize/.test(step))).toEqual([]);
});

test('a renewal sorts nothing', async () => {
  const steps = await stage.plan('renewReadyLeases', SQL.renewReadyLeases);
  expect(steps.map((step) => step['Node Type'])).not.toContain('Sort');
});

// An update that changes no column of an index is HOT: it writes no index.
test('no index of nodes has a column that the renewal of a counted lease changes', async () => {
  const { rows } = await stage.session.lend((lent) =>
    lent.script(`SELECT DISTINCT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid
      AND (attnum = ANY (indkey) OR pg_get_expr(indpred, indrelid) ~ ('\\m' || attname || '\\M'))
      WHERE indrelid = 'nodes'::regclass AND attnum > 0`),
  );
  const indexed = rows.map((row) => row.attname);
  expect(indexed).toContain('lease_due_at');
  const changed = ['lease_started_at', 'lease_expires_at', 'row_sum', 'fixed_sum'];
  expect(indexed.filter((name) => changed.includes(name as string))).toEqual([]);
});

test('the check itself finds a scan, and a read outside the Space', async () => {
  await stage.session.lend((lent) =>
    lent.script(`PREPARE scan AS SELECT * FROM nodes WHERE size = $1; PREPARE whole AS SELECT hash FROM nodes
      WHERE lease_counted AND lease_due_at <= $1 AND space > $2 ORDER BY space LIMIT 5`),
  );
  const scan = await stage.plan('scan', '$1');
  expect(scansOf(scan).map((step) => step['Node Type'])).toContain('Seq Scan');
  expect(scansOf(await stage.plan('whole', '$2'))[0]?.['Index Cond']).not.toMatch(/space = /);
});

/** Statements that change or lock the nodes that they are given. */
const BY_HASH = [
  ...['lockNodes', 'lockAbsent', 'findAppeared', 'findNodesWithContent', 'deleteNodes'],
  ...[
    'updateNodes',
    'updateNodeCounts',
    'updateNodeLeases',
    'renewReadyLeases',
    'endLeases',
    'moveCandidates',
  ],
] as (keyof typeof SQL)[];

test('of a small Space only the nodes that are asked for are read, so that a damaged page fails only these', async () => {
  const url = await databases.createDatabase();
  const small = await openInstance(url, { connectionsMax: 1 });
  const operator = new Bun.SQL(url, { max: 1 });
  await small.pool.lend(async (session) => {
    await session.script(
      FILL.replace('generate_series(1, 40)', 'generate_series(1, 1)').replace('500) AS n;', '300) AS n;'),
    );
    for (const name of BY_HASH) await session.script(`PREPARE "${name}" AS ${SQL[name]}`);
    for (const prepare of ['SELECT 1', 'VACUUM nodes', 'ANALYZE']) {
      await operator.unsafe(prepare);
      for (const name of BY_HASH) {
        const looks = scansOf(await explain(session, name, SQL[name]));
        const conditions = looks.flatMap((step) =>
          step['Index Name']?.startsWith('nodes_') ? [step['Index Cond']] : [],
        );
        expect(conditions.length).toBeGreaterThan(0);
        for (const condition of conditions)
          expect(`${name}: ${condition}`).toMatch(/ AND \(?(?:hash|lease_due_at)/);
      }
    }
  });
  await operator.close();
  await small.close();
});
