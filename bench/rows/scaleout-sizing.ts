/** Bytes per row of every table and index of the scale-out engine, measured on a filled PostgreSQL: what sizing rests on. */
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { SQL as Database } from 'bun';
import { SPACE_STATEMENTS } from '../../packages/server/engine/postgres/statements.ts';
import { startPostgres } from '../../test/support/postgres-server.ts';
import type { Bench, Row, RowResult } from '../bench.ts';
import { migrateDatabase } from '../scaleout.ts';

export const SCALEOUT_SIZING_ROW: Row = { name: 'scaleout-sizing', packages: [], run: runSizingRow };

const SPACES = 100;
const REFS_PER_NODE = 4;
/** One in this many nodes is held by a root ref, made by a commit of its own. */
const NODES_PER_ROOT = 100;

async function runSizingRow(bench: Bench): Promise<readonly RowResult[]> {
  const nodes = bench.quick ? 10_000 : 1_000_000;
  const postgres = await startPostgres({ durable: false, settings: { shared_buffers: '1GB' } });
  try {
    const url = await postgres.createDatabase();
    await migrateDatabase(url);
    const database = new Database(url, { max: 1 });
    try {
      bench.progress(`filling PostgreSQL with ${nodes} nodes …`);
      await fill(database, nodes);
      const sizes = await measure(database);
      bench.record(`${JSON.stringify(sizes, null, 1)}\n`);
      const walBytes = await measureRenewals(database, bench.quick ? 100 : 2000);
      const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0) / nodes;
      return [
        {
          row: 'scaleout-sizing',
          workload: `${nodes} nodes over ${SPACES} Spaces, ${REFS_PER_NODE} refs each, every ${NODES_PER_ROOT}th a root, half of them leased`,
          target: {
            figure: 'value',
            sense: 'at most',
            bound: 2000,
            text: 'no target: ≤ 2000 bytes per node is a check',
          },
          ours: { label: 'PostgreSQL', unit: 'bytes/node', values: [total] },
          peer: undefined,
          notes: [
            ...sizes.map(
              ({ name, bytes, rows }) => `${name}: ${Math.round(bytes / rows)} bytes per row of its table`,
            ),
            `a lease renewed by itself writes ${Math.round(walBytes)} bytes of log, page images left out`,
          ],
        },
      ];
    } finally {
      await database.close();
    }
  } finally {
    await postgres.stop();
  }
}

/** Bytes of write-ahead log for one lease renewed in a statement of its own, with the server's statement. */
async function measureRenewals(database: Database, count: number): Promise<number> {
  const rows: { space: string; hash: Uint8Array }[] = await database.unsafe(
    'SELECT space, hash FROM nodes TABLESAMPLE SYSTEM (5) LIMIT $1',
    [count],
  );
  const readEnd = async (): Promise<number> => {
    const [end] = await database.unsafe(`SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bytes`);
    return Number((end as { bytes: string }).bytes);
  };
  const text = SPACE_STATEMENTS.renewReadyLeases;
  const before = await readEnd();
  for (const { space, hash } of rows) {
    const hashes = `{"\\\\x${Buffer.from(hash).toString('hex')}"}`;
    await database.unsafe(text, [space, hashes, `{${LEASE_DURATION_MS_MAX}}`, null, 0]);
  }
  return ((await readEnd()) - before) / rows.length;
}

async function fill(database: Database, nodes: number): Promise<void> {
  const perSpace = nodes / SPACES;
  const each = `generate_series(1, ${SPACES}) AS s(s), generate_series(1, ${perSpace}) AS i(i)`;
  const space = `md5('space ' || s)::uuid`;
  const hash = `sha256(convert_to(s || ' ' || i, 'UTF8'))`;
  const generation = `substr(sha256(convert_to('generation ' || s || ' ' || i, 'UTF8')), 1, 16)`;
  const now = 'floor(extract(epoch FROM now()) * 1000)::bigint';
  const isRoot = `(i % ${NODES_PER_ROOT} = 0)`;
  const refs = Array.from(
    { length: REFS_PER_NODE },
    (_, at) => `sha256(convert_to(s || ' ' || (i + ${at + 1}), 'UTF8'))`,
  );
  await database.unsafe(
    `INSERT INTO spaces (space, app_id, space_id) SELECT ${space}, 'an-app-of-some-name', 'space-' || s FROM generate_series(1, ${SPACES}) AS s(s)`,
  );
  // In the order of their hashes, as good as by chance: the order in which nodes come.
  await database.unsafe(
    `INSERT INTO nodes (space, hash, generation, size, canonical_size, lease_started_at, lease_expires_at, child_ref_count,
       root_ref_count, waiting_touched_at, claim_held_until, held_domain_count, state, inline, collectable, lease_counted,
       content_type, refs, lease_due_at)
     SELECT ${space}, ${hash}, ${generation}, 65536, 65700, ${now}, ${now} + i, ${REFS_PER_NODE}, ${isRoot}::integer, 0, 0,
       ${isRoot}::integer, 1, false, false, i % 2 = 0, 'application/vnd.example.document+json', ${refs.join(' || ')}, ${now} + i
     FROM ${each} ORDER BY ${generation}`,
  );
  await database.unsafe(
    `INSERT INTO contents (space, generation, canonical_size, url_expires_at, integrity, inline_bytes)
     SELECT ${space}, ${generation}, 65700, ${now}, convert_to('"' || md5(i::text) || '"', 'UTF8'), NULL FROM ${each} ORDER BY ${generation}`,
  );
  await database.unsafe(
    `INSERT INTO domains (space, domain, revision, history_floor)
     SELECT ${space}, 'documents', ${perSpace / NODES_PER_ROOT}, 0 FROM generate_series(1, ${SPACES}) AS s(s)`,
  );
  await database.unsafe(
    `INSERT INTO balances (space, domain, hash, balance, from_revision)
     SELECT ${space}, 'documents', ${hash}, 1, i FROM ${each} WHERE ${isRoot} ORDER BY ${generation}`,
  );
  await database.unsafe(
    `INSERT INTO root_ref_commits (space, domain, request_id, payload_digest, revision)
     SELECT ${space}, 'documents', convert_to(gen_random_uuid()::text, 'UTF8'), ${hash}, i FROM ${each} WHERE ${isRoot}`,
  );
  await database.unsafe('VACUUM ANALYZE');
}

interface Size {
  /** of a table, or an index of it */
  readonly name: string;
  readonly bytes: number;
  /** of the table */
  readonly rows: number;
}

async function measure(database: Database): Promise<Size[]> {
  const found: { name: string; bytes: string; rows: string }[] = await database.unsafe(
    `SELECT relations.relname AS name, pg_relation_size(relations.oid) AS bytes, greatest(tables.reltuples, 1)::bigint AS rows
     FROM pg_class AS tables
     JOIN pg_class AS relations ON relations.oid = tables.oid
       OR relations.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tables.oid)
     WHERE tables.relkind = 'r' AND tables.relname IN ('nodes', 'contents', 'balances', 'root_ref_commits', 'spaces', 'domains')
     ORDER BY tables.relname, relations.relkind DESC, relations.relname`,
  );
  return found.map(({ name, bytes, rows }) => ({ name, bytes: Number(bytes), rows: Number(rows) }));
}
