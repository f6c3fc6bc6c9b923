/**
 * Recounts the embedded engine's database from its rows alone, read-only and with statements of its own, and compares what
 * is kept (counters, counts, flags, records) with what is there. Knows the schema on purpose: it is the second opinion.
 */
import { Database } from 'bun:sqlite';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { databasePath, incomingFolder, objectsFolder } from './embedded-files.ts';

type Row = Record<string, number | string | Uint8Array | null>;

export interface Recount {
  /** what is kept and wrong, one line each; empty when all is right */
  readonly problems: readonly string[];
  /** by Space: what getUsage must answer at `now` while nothing is being received */
  usage(appId: string, spaceId: string, now: number): Record<string, number>;
  /** hashes of all rows of a Space by state: 0 waiting, 1 ready, 2 rotten, 3 claimed */
  hashes(appId: string, spaceId: string, state: number): readonly string[];
}

const REF_BYTES = 32;
const [OBJECT, INLINE, PACKED] = [0, 1, 2];

export function recount(data: string): Recount {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    return database.transaction(() => readAll(database))();
  } finally {
    database.close();
  }
}

function readAll(database: Database): Recount {
  const all = (sql: string): Row[] => database.query<Row, []>(sql).all();
  const spaces = all('SELECT * FROM spaces');
  const nodes = all('SELECT * FROM nodes');
  const contents = new Map(all('SELECT * FROM contents').map((row) => [hex(row.generation), row]));
  const uploads = all('SELECT * FROM uploads');
  const looseEdges = all('SELECT * FROM loose_edges');
  const balances = all('SELECT b.*, d.space FROM balances b JOIN domains d ON d.id = b.domain');
  const problems = [
    ...spaces.flatMap((space) => findCounterProblems(space, nodesOf(nodes, space))),
    ...spaces.flatMap((space) => findEdgeProblems(nodesOf(nodes, space), nodesOf(looseEdges, space))),
    ...spaces.flatMap((space) => findBalanceProblems(nodesOf(nodes, space), nodesOf(balances, space))),
    ...findContentProblems(nodes, uploads, contents),
    ...findPackProblems(all('SELECT * FROM packs'), contents.values()),
  ];
  const find = (appId: string, spaceId: string): Row[] => {
    const space = spaces.find((row) => row.app_id === appId && row.space_id === spaceId);
    return space === undefined ? [] : nodesOf(nodes, space);
  };
  return {
    problems,
    usage: (appId, spaceId, now) => usageOf(find(appId, spaceId), now),
    hashes: (appId, spaceId, state) =>
      find(appId, spaceId)
        .filter((row) => row.state === state)
        .map((row) => hex(row.hash)),
  };
}

function nodesOf(rows: readonly Row[], space: Row): Row[] {
  return rows.filter((row) => row.space === space.id);
}

function usageOf(nodes: readonly Row[], now: number): Record<string, number> {
  const sum = (rows: readonly Row[], column: string): number =>
    rows.reduce((total, row) => total + Number(row[column]), 0);
  const ready = nodes.filter((row) => row.state === 1);
  return {
    nodeCount: nodes.length,
    readyContentBytes: sum(ready, 'size'),
    readyStoredBytes: ready.reduce((total, row) => total + Number(row.stored_size ?? row.canonical_size), 0),
    reservedBytes: sum(
      nodes.filter((row) => row.state === 0),
      'canonical_size',
    ),
    notReadyNodeCount: nodes.length - ready.length,
    leasedNodeCount: nodes.filter((row) => Number(row.lease_expires_at) > now).length,
  };
}

function findCounterProblems(space: Row, nodes: readonly Row[]): string[] {
  const usage = usageOf(nodes, Number(space.lease_watermark));
  const kept = {
    nodeCount: space.node_count,
    readyContentBytes: space.ready_content_bytes,
    readyStoredBytes: space.ready_stored_bytes,
    reservedBytes: space.waiting_bytes,
    notReadyNodeCount: space.not_ready_node_count,
    leasedNodeCount: space.leased_count,
  };
  return Object.entries(kept)
    .filter(([name, value]) => value !== usage[name])
    .map(([name, value]) => `counter ${name} is ${value}, the rows say ${usage[name]}`);
}

function findEdgeProblems(nodes: readonly Row[], looseEdges: readonly Row[]): string[] {
  const expected = new Map<string, number>();
  for (const row of nodes) {
    const refs = row.refs as Uint8Array;
    for (let offset = 0; offset < refs.length; offset += REF_BYTES) {
      const child = hex(refs.subarray(offset, offset + REF_BYTES));
      expected.set(child, (expected.get(child) ?? 0) + 1);
    }
  }
  const kept = new Map(nodes.map((row) => [hex(row.hash), Number(row.child_ref_count)]));
  for (const row of looseEdges) {
    const hash = hex(row.hash);
    if (kept.has(hash)) return [`${hash} has a row and loose edges`];
    kept.set(hash, Number(row.count));
  }
  return [...new Set([...expected.keys(), ...kept.keys()])]
    .filter((hash) => (expected.get(hash) ?? 0) !== (kept.get(hash) ?? 0))
    .map((hash) => `${hash} has ${expected.get(hash) ?? 0} edges, kept are ${kept.get(hash) ?? 0}`);
}

function findBalanceProblems(nodes: readonly Row[], balances: readonly Row[]): string[] {
  const sums = new Map<string, { sum: number; domains: number }>();
  for (const row of balances) {
    const hash = hex(row.hash);
    const { sum, domains } = sums.get(hash) ?? { sum: 0, domains: 0 };
    sums.set(hash, { sum: sum + Number(row.balance), domains: domains + 1 });
  }
  const problems: string[] = [];
  for (const row of nodes) {
    const hash = hex(row.hash);
    const { sum, domains } = sums.get(hash) ?? { sum: 0, domains: 0 };
    sums.delete(hash);
    if (sum !== row.root_ref_count || domains !== row.held_domain_count) {
      problems.push(`${hash} keeps ${row.root_ref_count} root refs, its balances say ${sum}`);
    }
    const isReadable = row.state === 1 || row.state === 2;
    const isFree = isReadable && row.child_ref_count === 0 && sum === 0 && domains === 0;
    if (Number(isFree) !== row.collectable)
      problems.push(`${hash} is collectable: ${row.collectable}, wrong`);
  }
  return [...problems, ...[...sums.keys()].map((hash) => `${hash} has balances and no row`)];
}

function findContentProblems(
  nodes: readonly Row[],
  uploads: readonly Row[],
  contents: ReadonlyMap<string, Row>,
): string[] {
  const problems: string[] = [];
  const owned = new Set<string>();
  const own = (row: Row, what: string): void => {
    const generation = hex(row.generation);
    const content = contents.get(generation);
    owned.add(generation);
    if (content === undefined) problems.push(`${what} ${hex(row.hash)} has no content record`);
    else if (content.canonical_size !== row.canonical_size) problems.push(`${what}: sizes differ`);
    else if (placeCode(content) !== (row.storage ?? row.inline)) problems.push(`${what}: storage differs`);
  };
  for (const row of nodes) own(row, 'node');
  for (const row of uploads) if (row.verdict === 1) own(row, 'upload');
  const orphans = [...contents.keys()].filter((generation) => !owned.has(generation));
  return [...problems, ...orphans.map((generation) => `content ${generation} belongs to nothing`)];
}

function placeCode({ inline_bytes: inline, pack }: Row): number {
  if (inline !== null) return INLINE;
  return pack === null ? OBJECT : PACKED;
}

function findPackProblems(packs: readonly Row[], contents: Iterable<Row>): string[] {
  const records = new Map<string, number[]>();
  for (const { pack, stored_length: length } of contents) {
    if (pack === null) continue;
    const lengths = records.get(hex(pack)) ?? [];
    lengths.push(Number(length));
    records.set(hex(pack), lengths);
  }
  const problems: string[] = [];
  for (const row of packs) {
    const generation = hex(row.generation);
    const lengths = records.get(generation) ?? [];
    records.delete(generation);
    const bytes = lengths.reduce((total, length) => total + length, 0);
    if (row.live_records !== lengths.length || row.live_bytes !== bytes) {
      problems.push(`pack ${generation} keeps ${row.live_records} records, ${row.live_bytes} bytes: wrong`);
    }
    if (lengths.length > 0 && row.is_discarded === 1)
      problems.push(`pack ${generation} is live and discarded`);
  }
  return [...problems, ...[...records.keys()].map((generation) => `pack ${generation} has no row`)];
}

/** The differences between the content folder and the rows; empty lists when it is tidy. */
export interface Leftovers {
  /** objects that no record speaks of */
  readonly orphans: readonly string[];
  /** those of them that have no tombstone */
  readonly unburied: readonly string[];
  /** records whose object is not there */
  readonly missing: readonly string[];
  /** uploads on their way, by name */
  readonly incoming: readonly string[];
}

/** While nothing is being received and no generation is open. */
export function findLeftovers(data: string): Leftovers {
  const list = (folder: string): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name);
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const rows = database
      .query<Row, []>(
        `SELECT generation FROM contents WHERE inline_bytes IS NULL AND pack IS NULL
         UNION ALL SELECT generation FROM packs WHERE bytes IS NOT NULL AND is_discarded = 0`,
      )
      .all();
    const required = new Set(rows.map(({ generation }) => hex(generation)));
    const objects = new Set(list(objectsFolder(data)));
    const tombstones = database.query<Row, []>('SELECT generation FROM tombstones').all();
    const buried = new Set(tombstones.map(({ generation }) => hex(generation)));
    const orphans = [...objects].filter((generation) => !required.has(generation));
    return {
      orphans,
      unburied: orphans.filter((generation) => !buried.has(generation)),
      missing: [...required].filter((generation) => !objects.has(generation)),
      incoming: list(incomingFolder(data)),
    };
  } finally {
    database.close();
  }
}

/** Puts an object that no row names into the content folder, as if it had been made at `now`. */
export function plantStray(data: string, now: number): void {
  const generation = now.toString(16).padStart(12, '0') + 'ab'.repeat(10);
  writeFileSync(join(objectsFolder(data), generation.slice(-2), generation), 'nobody knows me');
}

function hex(bytes: Row[string] | undefined): string {
  return Buffer.from(bytes as Uint8Array).toString('hex');
}
