/**
 * Recounts the scale-out engine from its rows alone, in one snapshot and with statements of its own, compares what is kept
 * (counters, counts, flags, records) with what is there, and the bucket with the rows. Knows schema and keys on purpose: it
 * is the second opinion.
 */

import { expect } from 'bun:test';
import { SQL } from 'bun';
import { listKeys, type TestBucket } from './s3-request.ts';

type Row = Record<string, number | string | boolean | null>;

export interface ScaleoutRecount {
  /** what is kept and wrong, one line each; empty when all is right */
  readonly problems: readonly string[];
  /** by Space: what getUsage must answer at `now` */
  usage(appId: string, spaceId: string, now: number): Record<string, number>;
  /** hashes of all rows of a Space by state */
  hashes(appId: string, spaceId: string, state: keyof typeof STATES): readonly string[];
  /** generations of objects that a row, an upload or a pack points at */
  readonly owned: ReadonlySet<string>;
  /** generations whose object a ready row needs */
  readonly required: ReadonlySet<string>;
  /** generations that wait for their deletion */
  readonly discarded: ReadonlySet<string>;
}

const STATES = { waiting: 0, ready: 1, rotten: 2, claimed: 3 } as const;
const REF_DIGITS = 64;

const STATEMENTS = {
  spaces: 'SELECT space::text, app_id, space_id FROM spaces',
  nodes: `SELECT space::text, encode(hash, 'hex') AS hash, encode(generation, 'hex') AS generation, state, size,
    canonical_size, lease_expires_at, child_ref_count, root_ref_count, held_domain_count, inline, packed, collectable, lease_counted,
    coalesce(stored_size, canonical_size) AS stored_size, encode(refs, 'hex') AS refs FROM nodes`,
  looseEdges: `SELECT space::text, encode(hash, 'hex') AS hash, count FROM loose_edges`,
  uploads: `SELECT space::text, encode(hash, 'hex') AS hash, encode(generation, 'hex') AS generation FROM uploads`,
  contents: `SELECT space::text, encode(generation, 'hex') AS generation, canonical_size, inline_bytes IS NOT NULL AS inline,
    encode(pack, 'hex') AS pack, pack_offset, stored_length FROM contents`,
  packs: `SELECT space::text, encode(generation, 'hex') AS generation, live_records, live_bytes, first_dead_at, state, bytes, discarded
    FROM packs`,
  discards: `SELECT space::text, encode(generation, 'hex') AS generation FROM discards`,
  balances: `SELECT space::text, domain, encode(hash, 'hex') AS hash, balance FROM balances`,
  counters: `SELECT space::text, sum(node_count)::bigint AS node_count,
    sum(ready_content_bytes)::bigint AS ready_content_bytes, sum(ready_stored_bytes)::bigint AS ready_stored_bytes,
    sum(waiting_bytes)::bigint AS waiting_bytes, sum(not_ready_node_count)::bigint AS not_ready_node_count,
    sum(leased_count)::bigint AS leased_count FROM usage_counters GROUP BY space`,
  strangers: `SELECT DISTINCT space::text FROM (SELECT space FROM nodes UNION ALL SELECT space FROM uploads UNION ALL
    SELECT space FROM balances UNION ALL SELECT space FROM contents) AS known
    WHERE space NOT IN (SELECT space FROM spaces)`,
  /** what is kept of Apps that are counted, and what their Spaces say */
  apps: `SELECT app_id, (SELECT count(*) FROM spaces WHERE spaces.app_id = kept.app_id) = spaces
      AND (SELECT coalesce(sum(node_count), 0) FROM usage_counters JOIN spaces USING (space) WHERE app_id = kept.app_id) = nodes
      AND (SELECT coalesce(sum(ready_stored_bytes + waiting_bytes), 0) FROM usage_counters JOIN spaces USING (space)
        WHERE app_id = kept.app_id) = bytes
      AND (SELECT coalesce(sum(commit_count), 0) FROM domains JOIN spaces USING (space) WHERE app_id = kept.app_id) = commits
      AND (SELECT coalesce(sum(canonical_size), 0) FROM uploads JOIN spaces USING (space) WHERE app_id = kept.app_id)
        + (SELECT coalesce(sum(reserved_bytes + CASE WHEN state = 0 AND NOT discarded THEN coalesce(bytes, 0) ELSE 0 END), 0)
          FROM packs JOIN spaces USING (space) WHERE app_id = kept.app_id) = pending AS is_right
    FROM (SELECT app_id, sum(space_count) AS spaces, sum(node_count) AS nodes, sum(ready_stored_bytes + waiting_bytes) AS bytes,
        sum(commit_rows) AS commits, sum(pending_bytes) AS pending
      FROM (TABLE app_totals UNION ALL SELECT app_id, 0, space_count, node_count, ready_content_bytes, ready_stored_bytes, waiting_bytes,
        not_ready_node_count, pending_bytes, commit_rows, row_sum FROM app_changes) AS both_tables
      WHERE app_id IN (SELECT app_id FROM app_totals WHERE counting_since = 0) GROUP BY app_id) AS kept`,
} as const;

type Tables = Record<keyof typeof STATEMENTS, Row[]>;

async function readTables(metadataUrl: string): Promise<Tables> {
  await using sql = new SQL(metadataUrl, { max: 1 });
  return sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
    const tables: Partial<Tables> = {};
    for (const [name, statement] of Object.entries(STATEMENTS)) {
      tables[name as keyof Tables] = await tx.unsafe(statement);
    }
    return tables as Tables;
  });
}

export async function recountScaleout(metadataUrl: string): Promise<ScaleoutRecount> {
  const tables = await readTables(metadataUrl);
  const { spaces, nodes, uploads, discards } = tables;
  const find = (appId: string, spaceId: string): Row[] => {
    const space = spaces.find((row) => row.app_id === appId && row.space_id === spaceId)?.space;
    return nodes.filter((row) => row.space === space);
  };
  return {
    problems: [
      ...tables.strangers.map(({ space }) => `${space} has rows and no names`),
      ...tables.apps.flatMap((row) =>
        row.is_right === true ? [] : [`the totals of ${row.app_id} are wrong`],
      ),
      ...spaces.flatMap(({ space }) => {
        const rows = ofSpace(tables, String(space));
        return [
          ...findCounterProblems(rows),
          ...findEdgeProblems(rows),
          ...findBalanceProblems(rows),
          ...findPackProblems(rows),
        ];
      }),
      ...spaces.flatMap(({ space }) => findContentProblems(ofSpace(tables, String(space)))),
    ],
    usage: (appId, spaceId, now) => usageOf(find(appId, spaceId), now),
    hashes: (appId, spaceId, state) =>
      find(appId, spaceId)
        .filter((row) => row.state === STATES[state])
        .map((row) => String(row.hash)),
    owned: new Set([
      ...[...nodes.filter(({ packed }) => packed === false), ...uploads].map((row) => String(row.generation)),
      ...tables.packs.filter(({ discarded }) => discarded === false).map((row) => String(row.generation)),
    ]),
    required: new Set([
      ...nodes
        .filter(({ state, inline, packed }) => state === STATES.ready && inline === false && packed === false)
        .map((row) => String(row.generation)),
      ...tables.contents.flatMap(({ pack }) => (pack === null ? [] : [String(pack)])),
    ]),
    discarded: new Set(discards.map((row) => String(row.generation))),
  };
}

function ofSpace(tables: Tables, space: string): Tables {
  const entries = Object.entries(tables).map(([name, rows]) => [
    name,
    rows.filter((row) => row.space === space),
  ]);
  return Object.fromEntries(entries) as Tables;
}

function usageOf(nodes: readonly Row[], now: number): Record<string, number> {
  const sum = (rows: readonly Row[], column: string): number =>
    rows.reduce((total, row) => total + Number(row[column]), 0);
  const ready = nodes.filter((row) => row.state === STATES.ready);
  const waiting = nodes.filter((row) => row.state === STATES.waiting);
  return {
    nodeCount: nodes.length,
    readyContentBytes: sum(ready, 'size'),
    readyStoredBytes: sum(ready, 'stored_size'),
    reservedBytes: sum(waiting, 'canonical_size'),
    notReadyNodeCount: nodes.length - ready.length,
    leasedNodeCount: nodes.filter((row) => Number(row.lease_expires_at) > now).length,
  };
}

/** `leased_count` counts the marked rows, whether their lease has run out meanwhile or not. */
function findCounterProblems({ nodes, counters }: Tables): string[] {
  const usage = usageOf(nodes, 0);
  const [row] = counters;
  const kept = {
    nodeCount: row?.node_count,
    readyContentBytes: row?.ready_content_bytes,
    readyStoredBytes: row?.ready_stored_bytes,
    reservedBytes: row?.waiting_bytes,
    notReadyNodeCount: row?.not_ready_node_count,
    leasedNodeCount: row?.leased_count,
  };
  const expected: Record<string, number> = {
    ...usage,
    leasedNodeCount: nodes.filter((each) => each.lease_counted === true).length,
  };
  return Object.entries(kept)
    .filter(([name, value]) => Number(value ?? 0) !== expected[name])
    .map(([name, value]) => `counter ${name} is ${value}, the rows say ${expected[name]}`);
}

function findEdgeProblems({ nodes, looseEdges }: Tables): string[] {
  const expected = new Map<string, number>();
  for (const { refs } of nodes) {
    for (const [child] of String(refs).matchAll(new RegExp(`.{${REF_DIGITS}}`, 'g'))) {
      expected.set(child, (expected.get(child) ?? 0) + 1);
    }
  }
  const kept = new Map(nodes.map((row) => [String(row.hash), Number(row.child_ref_count)]));
  const problems: string[] = [];
  for (const row of looseEdges) {
    const hash = String(row.hash);
    if (kept.has(hash)) problems.push(`${hash} has a row and loose edges`);
    if (Number(row.count) === 0) problems.push(`${hash} has loose edges that count 0`);
    kept.set(hash, Number(row.count));
  }
  return [
    ...problems,
    ...[...new Set([...expected.keys(), ...kept.keys()])]
      .filter((hash) => (expected.get(hash) ?? 0) !== (kept.get(hash) ?? 0))
      .map((hash) => `${hash} has ${expected.get(hash) ?? 0} edges, kept are ${kept.get(hash) ?? 0}`),
  ];
}

function findBalanceProblems({ nodes, balances }: Tables): string[] {
  const sums = new Map<string, { sum: number; domains: number }>();
  for (const row of balances) {
    const hash = String(row.hash);
    const { sum, domains } = sums.get(hash) ?? { sum: 0, domains: 0 };
    sums.set(hash, { sum: sum + Number(row.balance), domains: domains + 1 });
  }
  const problems: string[] = [];
  for (const row of nodes) {
    const hash = String(row.hash);
    const { sum, domains } = sums.get(hash) ?? { sum: 0, domains: 0 };
    sums.delete(hash);
    if (sum !== Number(row.root_ref_count) || domains !== Number(row.held_domain_count)) {
      problems.push(`${hash} keeps ${row.root_ref_count} root refs, its balances say ${sum}`);
    }
    const isReadable = row.state === STATES.ready || row.state === STATES.rotten;
    const isFree = isReadable && Number(row.child_ref_count) === 0 && sum === 0 && domains === 0;
    if (isFree !== row.collectable) problems.push(`${hash} is collectable: ${row.collectable}, wrong`);
  }
  return [...problems, ...[...sums.keys()].map((hash) => `${hash} has balances and no row`)];
}

function findContentProblems({ nodes, contents, uploads }: Tables): string[] {
  const known = new Map(contents.map((row) => [String(row.generation), row]));
  for (const { generation } of uploads) known.delete(String(generation));
  const problems: string[] = [];
  for (const row of nodes) {
    const content = known.get(String(row.generation));
    known.delete(String(row.generation));
    if (content === undefined) problems.push(`node ${row.hash} has no content record`);
    else if (Number(content.canonical_size) !== Number(row.canonical_size)) {
      problems.push(`node ${row.hash}: sizes differ`);
    } else if (content.inline !== row.inline) problems.push(`node ${row.hash}: inline differs`);
    else if ((content.pack !== null) !== row.packed) problems.push(`node ${row.hash}: packed differs`);
  }
  return [...problems, ...[...known.keys()].map((generation) => `content ${generation} belongs to nothing`)];
}

/** 8 bytes begin a pack, and 44 a record. */
function findPackProblems({ packs, contents }: Tables): string[] {
  const named = Map.groupBy(
    contents.filter(({ pack }) => pack !== null),
    ({ pack }) => String(pack),
  );
  const problems: string[] = [];
  for (const row of packs) {
    const generation = String(row.generation);
    const records = named.get(generation) ?? [];
    named.delete(generation);
    const bytes = records.reduce((sum, record) => sum + Number(record.stored_length), 0);
    if (records.length !== Number(row.live_records) || bytes !== Number(row.live_bytes)) {
      problems.push(
        `pack ${generation} keeps ${row.live_records} records of ${row.live_bytes} bytes, rows name ${records.length} of ${bytes}`,
      );
    }
    if (row.discarded === true && records.length > 0)
      problems.push(`pack ${generation} is discarded and live`);
    const hasDead = row.state === 2 && Number(row.bytes ?? 0) > 8 + 44 * records.length + bytes;
    if (records.length > 0 && row.state === 2 && hasDead !== Number(row.first_dead_at) > 0) {
      problems.push(`pack ${generation} has dead bytes: ${hasDead}, since ${row.first_dead_at}`);
    }
    const ends = records
      .map((record) => ({
        at: Number(record.pack_offset),
        end: Number(record.pack_offset) + Number(record.stored_length),
      }))
      .sort((left, right) => left.at - right.at);
    if (ends.some(({ at }, index) => index > 0 && at < (ends[index - 1]?.end ?? 0))) {
      problems.push(`records of pack ${generation} overlap`);
    }
  }
  return [...problems, ...[...named.keys()].map((pack) => `pack ${pack} is named and has no row`)];
}

/** The differences between the bucket and the rows; empty lists when it is tidy. */
export interface BucketLeftovers {
  /** objects no row and no upload points at */
  readonly orphans: readonly string[];
  /** generations of ready rows whose object is not there */
  readonly missing: readonly string[];
}

export async function findBucketLeftovers(
  counted: ScaleoutRecount,
  bucket: TestBucket,
): Promise<BucketLeftovers> {
  const keys = await listKeys(bucket, 'nodes/');
  const generations = new Set(keys.map((key) => key.slice(key.lastIndexOf('/') + 1)));
  return {
    orphans: [...generations].filter((generation) => !counted.owned.has(generation)),
    missing: [...counted.required].filter((generation) => !generations.has(generation)),
  };
}

const LOOKS_MAX = 20;

/**
 * Proves what servers answer by the rows. A sweep may finish a collection that was cut off between the two looks, so both are
 * taken anew until they agree. Resolves with the rows of the last look.
 */
export async function proveUsage(
  metadataUrl: string,
  [appId, spaceId]: readonly [string, string],
  client: { usage(): Promise<object> },
  now: () => number,
): Promise<ScaleoutRecount> {
  for (let looks = 1; ; looks += 1) {
    const counted = await recountScaleout(metadataUrl);
    expect(counted.problems).toEqual([]);
    const before = now();
    const usage = { ...(await client.usage()) };
    const possible = [before, now()].map((each) => counted.usage(appId, spaceId, each));
    if (looks < LOOKS_MAX && !possible.some((each) => Bun.deepEquals(each, usage))) continue;
    expect(possible).toContainEqual(usage as Record<string, number>);
    return counted;
  }
}
