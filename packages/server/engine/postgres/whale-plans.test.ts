/**
 * The cost of a statement for the rows of a list depends neither on how many rows its Space has, nor on how many PostgreSQL expects there.
 * One Space is a whale among many with a row each. The statistics are those from before the whale came, and then those of ANALYZE.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { BACKGROUND_STATEMENTS, SPACE_STATEMENTS } from './statements.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';
import type { PostgresConnection } from './wire/connection.ts';

const START_MS_MAX = 300_000;
const TINY_SPACES = 10_000;
const WHALE_ROWS = 20_000;
const [FEW, MANY] = [256, 1_024];
/** pages of tables and indexes; the dearest, `settleContents`, changes a row of contents and one of packs, which have eight indexes */
const BUFFERS_A_ROW_MAX = 40;
/** rows that all steps of a plan pass on or leave out */
const STEPS_A_ROW_MAX = 40;
const WHALE = `md5('whale')::uuid`;
/** The domains of this one have the names of the whale's rows. */
const NAMES = `md5('names')::uuid`;

/** A row in every table for each of `ids`. All keys of a row are the same bytes. */
const fill = (ids: string): string => `
  TRUNCATE ids; INSERT INTO ids SELECT space, sha256(convert_to(space || ' ' || n, 'UTF8')), n FROM (${ids}) AS made;
  INSERT INTO nodes SELECT space, id, id, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, false, true, true, 'text/plain', '' FROM ids;
  INSERT INTO loose_edges SELECT space, id, 1 FROM ids;
  INSERT INTO uploads (space, hash, generation, created_at, url_expires_at, touched_at, active_at) SELECT space, id, id, 1, 1, 1, 1 FROM ids;
  INSERT INTO contents SELECT space, id, 1, 0, id, NULL, id, 1, 1, 1 FROM ids;
  INSERT INTO packs (space, generation, id, version, created_at, url_expires_at, touched_at, bytes, published_count, reserved_bytes,
    reserved_nodes, live_records, live_bytes, first_dead_at, state, discarded, asked)
    SELECT space, id, id, 1, 1, 1, 1, 1000, 1, 0, 0, 2, 2, 0, 2, false, id FROM ids;
  INSERT INTO pack_verdicts SELECT space, id, id, '[]', NULL, NULL FROM ids;
  INSERT INTO discards SELECT space, id, 1, 0 FROM ids;
  INSERT INTO domains SELECT DISTINCT space, 'd', 5, 1000000 FROM ids;
  INSERT INTO domains SELECT ${NAMES}, encode(id, 'hex'), 1, 0 FROM ids ON CONFLICT DO NOTHING;
  INSERT INTO balances SELECT space, 'd', id, 1, 1 FROM ids;
  INSERT INTO balance_history SELECT space, 'd', id, 1, 2, 1, 1 FROM ids;
  INSERT INTO root_ref_commits SELECT space, 'd', id, id, n, n, n FROM ids;
  INSERT INTO commit_marks SELECT space, 'd', n, n, n FROM ids;
`;
const TINY = fill(
  `SELECT md5('tiny' || s)::uuid AS space, s AS n FROM generate_series(1, ${TINY_SPACES}) AS s`,
);
const ONE_WHALE = fill(`SELECT ${WHALE} AS space, n FROM generate_series(1, ${WHALE_ROWS}) AS n`);
/** Every sixteenth row, so that hardly two of them share a page. */
const FIND_ROWS = `SELECT encode(id, 'hex') AS id, n FROM (
    SELECT id, n, row_number() OVER (ORDER BY id) AS place FROM ids) AS placed
  WHERE place % 16 = 0 ORDER BY id LIMIT ${MANY}`;
const FIND_INDEXES = `SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index`;

interface Step {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Step[];
}

/** Those that take a list, or change the rows of one that they make. */
const LISTED = Object.entries<string>({ ...SPACE_STATEMENTS, ...BACKGROUND_STATEMENTS }).filter(
  // The lists of these hold only the few damaged rows that they skip.
  ([name, sql]) => /\[\]|\bgiven\b|\bended\b/.test(sql) && !/^find(?:Candidates|Claimed|Aband)/.test(name),
);

/** Walks: the first rows of a Space, its domains, and whether a domain has a row. */
const WALKED = new Set([
  ...[
    'endLeases:nodes_leased_due',
    'moveCandidates:nodes_leased_due',
    'takeBalances:balances_pkey',
    'takeBalances:domains_pkey',
  ],
  ...['takeBalancesOf:domains_pkey', 'deleteAnyHistory:balance_history_pkey'],
  ...['deleteAnyCommits:root_ref_commits_pkey', 'insertDomains:balances_pkey'],
  ...['insertDomains:root_ref_commits_pkey', 'findKnownGenerations:contents_by_pack'],
  ...['findBalanced:domains_pkey', 'findNearOnes:nodes_pkey', 'findInNearSpaces:nodes_pkey'],
]);

/** How many keys a row of the list stands for: those that one bit of its first 32 makes of it, and all that begin like it. */
const KEYS_A_ROW = new Map([['findNearOnes', 33]]);

let databases: TestDatabases;
let stage: Awaited<ReturnType<typeof openStage>>;
beforeAll(async () => {
  databases = await openDatabases();
  stage = await openStage();
}, START_MS_MAX);
afterAll(async () => {
  await stage.close();
  await databases.close();
});

async function openStage() {
  const engine = await openInstance(await databases.createDatabase(), {
    connectionsMax: 1,
    limits: { statementMs: START_MS_MAX },
  });
  const lend = <T>(work: (session: PostgresConnection) => Promise<T>): Promise<T> => engine.pool.lend(work);
  const script = (sql: string) => lend((lent) => lent.script(sql));
  // No ANALYZE but those of the test.
  await script(`CREATE UNLOGGED TABLE ids (space uuid, id bytea, n integer);
    DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r'
      AND relnamespace = 'public'::regnamespace LOOP
    EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name); END LOOP; END $$`);
  await script(TINY);
  await script('ANALYZE');
  await script(ONE_WHALE);
  const rows = (await script(FIND_ROWS)).rows as unknown as readonly { id: string; n: number }[];
  const indexes = new Map((await script(FIND_INDEXES)).rows.map((row) => [row.name, row.definition]));
  return { script, lend, rows, indexes: indexes as Map<string, string>, close: () => engine.close() };
}

/** Values of parameters that are none of: the Space, the keys of the rows, lists of 1, a clock, how many rows there are. */
function specialValue(name: string, place: number, ids: readonly { id: string; n: number }[]): unknown {
  switch (`${name} ${place}`) {
    case 'lockDomains 1':
    case 'advanceRevisions 1':
    case 'insertDomains 1':
      return NAMES;
    case 'lockDomains 2':
    case 'advanceRevisions 2':
      return ids.map(({ id }) => id);
    case 'findInNearSpaces 1':
      return ids.map(({ id }) => id.slice(0, 32));
    case 'insertDomains 2':
      return ids.map(({ id }) => `new ${id}`);
    case 'findCommits 4':
      return ids.map(({ n }) => n);
    case 'settleContents 4':
    case 'settleContents 5':
      return ids.map(() => 0);
    case 'updatePacks 12':
      return ids.map(() => 'f');
    case 'endLeases 3':
    case 'renewReadyLeases 5':
      return 1;
    default:
      return undefined;
  }
}

function parameterOf(name: string, sql: string, place: number, count: number): string {
  const rows = stage.rows.slice(0, count);
  const list = (values: readonly unknown[]) => `'{${values.map((each) => JSON.stringify(each)).join(', ')}}'`;
  const special = specialValue(name, place, rows);
  if (special !== undefined) return Array.isArray(special) ? list(special) : String(special);
  if (place === 1 && !sql.includes('$1::uuid[]')) return WHALE;
  const type = new RegExp(`\\$${place}::(\\w+)\\[\\]`).exec(sql)?.[1];
  switch (type) {
    case undefined:
      return sql.includes(`coalesce($${place}::bigint, floor`) ? '5' : String(count);
    case 'uuid':
      return `array_fill(${WHALE}, ARRAY[${count}])`;
    case 'bytea':
      return list(rows.map(({ id }) => `\\x${id}${name.startsWith('insert') ? '00' : ''}`));
    case 'text':
      return list(rows.map(() => 'd'));
    default:
      return list(rows.map(() => 1));
  }
}

/** Runs `sql` for `count` rows of the whale, and undoes it. The first step is the whole plan. */
function explain(name: string, sql: string, count: number): Promise<readonly Step[]> {
  const places = Math.max(...Array.from(sql.matchAll(/\$(\d+)/g), ([, place]) => Number(place)));
  const values = Array.from({ length: places }, (_, index) => parameterOf(name, sql, index + 1, count));
  return stage.lend(async (lent) => {
    await lent.script(`BEGIN; PREPARE "${name}" AS ${sql}`);
    const explaining = `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE "${name}"(${values.join(', ')})`;
    const { rows } = await lent.script(explaining).finally(() => lent.script('ROLLBACK; DEALLOCATE ALL'));
    const explained = rows[0]?.['QUERY PLAN'] as readonly { Plan: Step }[];
    return explained.flatMap(({ Plan: plan }) => flatten(plan));
  });
}

const flatten = (step: Step): Step[] => [step, ...(step.Plans ?? []).flatMap(flatten)];

const buffersOf = ([whole]: readonly Step[]): number =>
  (whole as Step)['Shared Hit Blocks'] + (whole as Step)['Shared Read Blocks'];

const rowsOf = (steps: readonly Step[]): number =>
  steps.reduce((sum, step) => {
    const removed = ['Filter', 'Join Filter', 'Index Recheck'].map(
      (by) => (step as unknown as Record<string, number>)[`Rows Removed by ${by}`] ?? 0,
    );
    const rows = removed.reduce((all, some) => all + some, step['Actual Rows']);
    return sum + rows * step['Actual Loops'];
  }, 0);

/** Every column of the index that is used. */
function expectFullKeys(name: string, steps: readonly Step[]): void {
  for (const { 'Node Type': type, 'Index Name': index, 'Index Cond': condition = '' } of steps) {
    expect(type).not.toBe('Seq Scan');
    if (index === undefined || WALKED.has(`${name}:${index}`)) continue;
    const columns = /\(([^()]*)\)/.exec(stage.indexes.get(index) ?? '')?.[1]?.split(', ') ?? [];
    // The sum of a commit's name is over the Space too.
    if (index !== 'root_ref_commits_by_name') expect(columns.length).toBeGreaterThan(1);
    for (const column of columns) {
      expect(`${name}: ${index}: ${condition}`).toMatch(new RegExp(`\\b${column} = `));
    }
  }
}

// In this order: what ANALYZE has learnt is not forgotten.
for (const [kind, prepare] of [
  ['before PostgreSQL knows of the whale', 'SELECT 1'],
  ['once it was analysed', 'ANALYZE'],
] as const) {
  describe(kind, () => {
    beforeAll(() => stage.script(prepare), START_MS_MAX);

    for (const [name, sql] of LISTED) {
      test(`${name} seeks each row of its list`, async () => {
        const few = await explain(name, sql, FEW);
        const many = await explain(name, sql, MANY);
        expectFullKeys(name, many);
        for (const [costOf, most] of [
          [buffersOf, BUFFERS_A_ROW_MAX],
          [rowsOf, STEPS_A_ROW_MAX],
        ] as const) {
          expect(costOf(many) / MANY).toBeLessThanOrEqual(most * (KEYS_A_ROW.get(name) ?? 1));
          // Linear, apart from pages that what was undone has left; the square of the list would be four times as much.
          expect(costOf(many) / MANY).toBeLessThanOrEqual((costOf(few) / FEW) * 2);
        }
      });
    }
  });
}
