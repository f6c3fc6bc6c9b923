/** The cost of requests among a million nodes (`--large`) against a tenth of that, and in a busy Space against a tiny one: PostgreSQL alone. */
import { createHash, randomUUID } from 'node:crypto';
import { SQL as Database } from 'bun';
import type { Space } from '../../packages/server/core/model.ts';
import { commitRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { PostgresMetadataStore } from '../../packages/server/engine/postgres/metadata-store.ts';
import { openPostgres } from '../../packages/server/engine/postgres/open-postgres.ts';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';
import { type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts';
import type { Bench, Row, RowResult } from '../bench.ts';
import { median } from '../stats.ts';
import { COUNTED_APP, DOMAIN, fillLarge, fillSpacesOfApp, LARGE_SPACE, TINY_SPACE } from './large-fill.ts';

export const SCALE_LARGE_ROW: Row = { name: 'scale-large', packages: [], run: runScaleLargeRow };

const SMALLER = 10;
const LEASE_MS = 7_200_000;
const CALLS_MIN = 5;
const TINY_NODES = 10;

interface Side {
  readonly nodes: number;
  readonly store: PostgresMetadataStore;
  readonly database: Database;
  close(): Promise<void>;
}

async function runScaleLargeRow(bench: Bench): Promise<readonly RowResult[]> {
  const large = bench.quick ? 4_000 : bench.scaleNodes.large;
  const settings = {
    ...{ shared_buffers: '1GB', full_page_writes: 'on' },
    ...{ max_wal_size: '8GB', checkpoint_timeout: '1h' },
  };
  const postgres = await startPostgres({ durable: false, settings });
  try {
    const sides = [
      await openSide(bench, postgres, large / SMALLER),
      await openSide(bench, postgres, large),
    ] as const;
    try {
      return await measure(bench, ...sides);
    } finally {
      for (const side of sides) await side.close();
    }
  } finally {
    await postgres.stop();
  }
}

async function openSide(bench: Bench, postgres: PostgresServer, nodes: number): Promise<Side> {
  const url = await postgres.createDatabase();
  const pool = await openPostgres(parsePostgresUrl(url, {}));
  const store = await PostgresMetadataStore.open({
    pool,
    onFatal(error) {
      throw error;
    },
  });
  const database = new Database(url, { max: 1 });
  const startedAt = performance.now();
  bench.progress(`filling PostgreSQL with ${nodes} nodes …`);
  await fillLarge(database, { nodes, commits: commitsOf(nodes) });
  bench.progress(`… which took ${Math.round((performance.now() - startedAt) / 1000)} s`);
  return {
    ...{ nodes, store, database },
    async close() {
      await database.close();
      await store.close();
      await pool.close();
    },
  };
}

/** of the large Space */
const commitsOf = (nodes: number): number => Math.round(nodes / 5);

async function measure(bench: Bench, small: Side, large: Side): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const [name, operate] of OPERATIONS) {
    const at = (side: Side) => () => operate(side, LARGE_SPACE, side.nodes / 2);
    const times = await timeInTurn(bench, at(large), at(small));
    results.push(resultOf(`scale-large-${name}`, `${name} among ${large.nodes} nodes`, times, 1.2));
  }
  const inSpace = (space: Space, nodes: number) => () => commit(large, space, nodes);
  const busy = await timeInTurn(
    bench,
    inSpace(LARGE_SPACE, large.nodes / 2),
    inSpace(TINY_SPACE, TINY_NODES),
  );
  const commits = `a commit in a Space of ${commitsOf(large.nodes)} commits, against one of a few`;
  return [
    ...results,
    resultOf('scale-large-busy', commits, busy, 1.3),
    await measureTotals(bench, large),
    await measureRenewals(bench, large),
  ];
}

type Operation = (side: Side, space: Space, nodes: number) => Promise<unknown>;

const OPERATIONS: readonly (readonly [name: string, operate: Operation])[] = [
  ['lease', ({ store }, space, nodes) => store.renewReadyLease(space, anyHash(space, nodes), LEASE_MS)],
  ['metadata', ({ store }, space, nodes) => store.findNode(space, anyHash(space, nodes))],
  ['commit', commit],
  ['usage', ({ store }, space) => store.readCounters(space)],
];

const anyHash = ({ spaceId }: Space, nodes: number): string =>
  createHash('sha256')
    .update(`${spaceId} ${1 + Math.floor(Math.random() * nodes)}`)
    .digest('hex');

function commit({ store }: Side, space: Space, nodes: number): Promise<unknown> {
  const hash = anyHash(space, nodes);
  const requestId = randomUUID();
  const payloadDigest = createHash('sha256').update(requestId).digest('hex');
  const reads = { domain: DOMAIN, requestId, hashes: [hash] };
  return store.transact(space, commitRootRefs, { ...reads, deltas: [1], payloadDigest }, reads);
}

/** ms, medians of each round. One call of each in turn: both meet the same machine. */
async function timeInTurn(
  bench: Bench,
  ...calls: readonly (() => Promise<unknown>)[]
): Promise<readonly [number[], number[]]> {
  const medians: [number[], number[]] = [[], []];
  for (let round = 0; round <= bench.rounds; round += 1) {
    const times: [number[], number[]] = [[], []];
    const until = performance.now() + bench.seconds * 2_000;
    while (performance.now() < until || times[0].length < CALLS_MIN) {
      for (const [index, call] of calls.entries()) {
        const from = performance.now();
        await call();
        times[index]?.push(performance.now() - from);
      }
    }
    // The first warms up.
    if (round > 0) for (const index of calls.keys()) medians[index]?.push(median(times[index] as number[]));
  }
  return medians;
}

async function measureTotals(bench: Bench, { database, store }: Side): Promise<RowResult> {
  const spaces = bench.quick ? 1_000 : 100_000;
  bench.progress(`making ${spaces} Spaces of an App …`);
  await fillSpacesOfApp(database, spaces);
  const from = performance.now();
  await store.readAppTotals(COUNTED_APP);
  const firstMs = performance.now() - from;
  const [values] = await timeInTurn(bench, () => store.readAppTotals(COUNTED_APP));
  const notes = [`the first time, when they are counted: ${Math.round(firstMs)} ms`];
  return ownValue('scale-large-app', `the totals of an App of ${spaces} Spaces`, ['ms', values, 5], notes);
}

/** Each after a checkpoint, so that the first change of each page writes it whole. */
async function measureRenewals(bench: Bench, side: Side): Promise<RowResult> {
  const count = Math.min(side.nodes / 2, bench.quick ? 100 : 20_000);
  const read = async () => {
    await side.database.unsafe('SELECT pg_stat_force_next_flush()');
    const [found] =
      await side.database.unsafe(`SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS bytes,
      n_tup_upd::integer AS updated, n_tup_hot_upd::integer AS hot FROM pg_stat_user_tables WHERE relname = 'nodes'`);
    return found as { bytes: number; updated: number; hot: number };
  };
  await side.database.unsafe('CHECKPOINT');
  const before = await read();
  for (let done = 0; done < count; done += 1)
    await side.store.renewReadyLease(LARGE_SPACE, anyHash(LARGE_SPACE, side.nodes / 2), LEASE_MS);
  const after = await read();
  const hot = (after.hot - before.hot) / Math.max(1, after.updated - before.updated);
  const bytes = (after.bytes - before.bytes) / count;
  const notes = [`HOT: ${Math.round(hot * 100)} % of the updates that PostgreSQL has counted by then`];
  return ownValue(
    'scale-large-wal',
    `${count} leases renewed at random`,
    ['bytes of log', [bytes], 2_000],
    notes,
  );
}

function resultOf(
  row: string,
  workload: string,
  [ours, theirs]: readonly [number[], number[]],
  bound: number,
): RowResult {
  const text = `≤ ${bound} × the time`;
  return {
    ...{ row, workload, notes: ['the median of one caller, who calls the engine itself'] },
    target: { figure: 'ratio', sense: 'at most', bound, text },
    ours: { label: 'large', unit: 'ms', values: ours },
    peer: { label: 'small', unit: 'ms', values: theirs },
  };
}

function ownValue(
  row: string,
  workload: string,
  [unit, values, bound]: readonly [string, number[], number],
  notes: readonly string[],
): RowResult {
  return {
    ...{ row, workload, notes, peer: undefined },
    target: { figure: 'value', sense: 'at most', bound, text: `≤ ${bound} ${unit}` },
    ours: { label: 'PostgreSQL', unit, values },
  };
}
