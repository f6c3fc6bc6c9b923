/** Makes a deployment of many nodes by SQL alone: half of them in one Space, half in Spaces of ten thousand, in packs of a thousand. */
import type { SQL } from 'bun';
import { spaceKeyOf } from '../../packages/server/core/space-map.ts';

const APP = 'bench';
export const LARGE_SPACE = { appId: APP, spaceId: 'large' };
/** it has one commit */
export const TINY_SPACE = { appId: APP, spaceId: 'tiny' };
export const DOMAIN = 'documents';
export const COUNTED_APP = 'counted';
/** in each Space but the large one */
const SPACE_NODES = 10_000;
const PACK_NODES = 1_000;
const NODE_BYTES = 3_000;
/** one in this many nodes is in no tree, and has two children instead of one */
const LOOSE_EVERY = 20;
const TWO_EVERY = 10;
const SLOTS = 16;

const NOW = 'floor(extract(epoch FROM now()) * 1000)::bigint';
const keysOf = (names: readonly string[], appId = APP): string =>
  `{${names.map((spaceId) => spaceKeyOf({ appId, spaceId })).join(',')}}`;
const namesOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `small ${index}`);

export interface LargeShape {
  readonly nodes: number;
  /** of the large Space, each with a balance of its own */
  readonly commits: number;
}

/** In the order of their hashes, as good as by chance: the order in which nodes come. */
export async function fillLarge(database: SQL, { nodes, commits }: LargeShape): Promise<void> {
  const small = Math.max(1, Math.round(nodes / 2 / SPACE_NODES));
  const names = [LARGE_SPACE.spaceId, TINY_SPACE.spaceId, ...namesOf(small)];
  await database.unsafe(
    `CREATE UNLOGGED TABLE made AS SELECT space, name,
      CASE name WHEN '${names[0]}' THEN ${nodes / 2} WHEN '${names[1]}' THEN 10 ELSE ${Math.round(nodes / 2 / small)} END AS nodes,
      CASE name WHEN '${names[0]}' THEN ${commits} ELSE 1 END AS commits
    FROM unnest($1::uuid[], $2::text[]) AS list (space, name)`,
    [keysOf(names), `{${names.map((name) => JSON.stringify(name)).join(',')}}`],
  );
  await database.unsafe(
    `INSERT INTO spaces (space, app_id, space_id) SELECT space, '${APP}', name FROM made`,
  );
  const generation = (of: string): string => `substr(sha256(convert_to(${of}, 'UTF8')), 1, 16)`;
  const node = (i: string): string => `sha256(convert_to(name || ' ' || ${i}, 'UTF8'))`;
  const pack = generation(`'pack ' || name || i / ${PACK_NODES}`);
  const isLoose = `(i % ${LOOSE_EVERY} = 0)`;
  const next = (i: string): string =>
    `${node(`(${i} + 1 + CASE WHEN (${i} + 1) % ${LOOSE_EVERY} = 0 THEN 1 ELSE 0 END)`)}`;
  const isRoot = `(i <= commits * ${LOOSE_EVERY} / (${LOOSE_EVERY} - 1) AND NOT ${isLoose})`;
  const each = 'made CROSS JOIN LATERAL generate_series(1, nodes) AS i';
  await database.unsafe(`INSERT INTO nodes (space, hash, generation, size, canonical_size, lease_started_at, lease_expires_at, child_ref_count,
      root_ref_count, waiting_touched_at, claim_held_until, held_domain_count, state, inline, collectable, lease_counted,
      content_type, refs, packed, lease_due_at)
    SELECT space, ${node('i')}, ${generation(`'of ' || name || i`)}, ${NODE_BYTES}, ${NODE_BYTES + 100}, ${NOW}, ${NOW} + 3600000,
      CASE WHEN ${isLoose} OR i IN (1, nodes) THEN 0 WHEN i % ${TWO_EVERY} = 2 THEN 2 ELSE 1 END, ${isRoot}::integer, 0, 0, ${isRoot}::integer,
      1, false, ${isLoose} OR i = nodes, true, 'application/octet-stream',
      CASE WHEN ${isLoose} OR i + 2 > nodes THEN '' WHEN i % ${TWO_EVERY} = 1 THEN ${next('i')} || ${next('i')} ELSE ${next('i')} END, true, ${NOW} + 3600000
    FROM ${each} ORDER BY ${node('i')}`);
  await database.unsafe(`INSERT INTO contents (space, generation, canonical_size, url_expires_at, integrity, pack, pack_offset,
      stored_length, codec)
    SELECT space, ${generation(`'of ' || name || i`)}, ${NODE_BYTES + 100}, 0, ${node('i')}, ${pack}, 8 + i % ${PACK_NODES} * 1600, 1500, 1
    FROM ${each} ORDER BY name, i`);
  await database.unsafe(`INSERT INTO packs (space, generation, id, version, created_at, url_expires_at, touched_at, bytes, published_count,
      reserved_bytes, reserved_nodes, live_records, live_bytes, first_dead_at, state, discarded, asked)
    SELECT space, ${pack}, ${pack}, 1, ${NOW}, 0, ${NOW}, 8 + count(*) * 1544, count(*), 0, 0, count(*), count(*) * 1500, 0, 2, false, ''
    FROM ${each} GROUP BY 1, 2, 3`);
  await database.unsafe(`INSERT INTO usage_counters SELECT space, 0, nodes, nodes::bigint * ${NODE_BYTES},
    nodes::bigint * ${NODE_BYTES + 100}, 0, 0, nodes, 0 FROM made`);
  await fillRootRefs(database, each, node, isRoot);
  await database.unsafe('VACUUM ANALYZE');
}

async function fillRootRefs(
  database: SQL,
  each: string,
  node: (i: string) => string,
  isRoot: string,
): Promise<void> {
  const roots = `(SELECT space, ${node('i')} AS hash, row_number() OVER (PARTITION BY space ORDER BY i) AS n FROM ${each}
    WHERE ${isRoot}) AS roots`;
  await database.unsafe(`INSERT INTO balances (space, domain, hash, balance, from_revision)
    SELECT space, '${DOMAIN}', hash, 1, n FROM ${roots} ORDER BY hash`);
  await database.unsafe(`INSERT INTO root_ref_commits (space, domain, request_id, payload_digest, revision)
    SELECT space, '${DOMAIN}', convert_to('request ' || n, 'UTF8'), hash, n FROM ${roots}`);
  await database.unsafe(`INSERT INTO domains (space, domain, revision, history_floor, commit_count)
    SELECT space, '${DOMAIN}', count(*), 0, count(*) FROM root_ref_commits GROUP BY space`);
}

/** Another App, with very many Spaces that have a row of counters for each slot. */
export async function fillSpacesOfApp(database: SQL, spaces: number): Promise<void> {
  const names = namesOf(spaces);
  await database.unsafe(
    `INSERT INTO spaces (space, app_id, space_id) SELECT space, '${COUNTED_APP}', name FROM unnest($1::uuid[], $2::text[]) AS list (space, name)`,
    [keysOf(names, COUNTED_APP), `{${names.map((name) => JSON.stringify(name)).join(',')}}`],
  );
  // Nobody has asked for the App, so nobody needs its changes.
  await database.unsafe('ALTER TABLE usage_counters DISABLE TRIGGER USER');
  await database.unsafe(`INSERT INTO usage_counters SELECT space, slot, 1, 1, 1, 0, 0, 0, 0
    FROM spaces CROSS JOIN generate_series(0, ${SLOTS - 1}) AS slot WHERE app_id = '${COUNTED_APP}'`);
  await database.unsafe('ALTER TABLE usage_counters ENABLE TRIGGER USER');
}
