/** What PostgreSQL can do by itself: pgbench with the very statements of the server, prepared, on rows of the same shape. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { SQL as Database } from 'bun';
import { SPACE_STATEMENTS } from '../../packages/server/engine/scaleout/postgres/statements.ts';
import type { Bench } from '../bench.ts';
import { migrateDatabase } from '../scaleout.ts';
import { findProgram } from './packages.ts';

export interface PgbenchPeer {
  /** transactions per second of a script over all connections */
  run(script: PgbenchScript, seconds: number): Promise<number>;
}

export interface PgbenchScript {
  readonly text: string;
  /** pgbench 15 cannot use prepared statements in a pipeline */
  readonly mode: 'prepared' | 'extended';
}

const DOMAIN = 'bench';
/** A Space and a node, drawn by pgbench; the rows are named so that it can compute their keys. */
const SPACE = `('00000000-0000-0000-0000-' || lpad((:s)::text, 12, '0'))::uuid`;
const HASH = `sha256(convert_to((:i)::text, 'UTF8'))`;
const UNIQUE = 'txid_current()';

/** Fills a database of the server's own schema: `nodes` ready, leased rows in each of `spaces` Spaces. */
export async function preparePgbench(
  bench: Bench,
  url: string,
  sizes: { readonly spaces: number; readonly nodes: number },
): Promise<PgbenchPeer> {
  const program = findProgram('pgbench');
  if (program === undefined) throw new Error('pgbench is not installed.');
  await migrateDatabase(url);
  await fill(url, sizes);
  const { hostname, port, username, password, pathname } = new URL(url);
  return {
    async run(script, seconds) {
      const path = join(bench.folder, 'pgbench.sql');
      const draw = `\\set s random(1, ${sizes.spaces})\n\\set i random(1, ${sizes.nodes})\n`;
      writeFileSync(path, `${draw}${script.text}`);
      const child = Bun.spawn(
        [
          ...[program, '-n', '-M', script.mode, '-c', String(bench.connections), '-j', '2'],
          ...['-T', String(Math.max(1, Math.round(seconds))), '-f', path],
          ...['-h', hostname, '-p', port, '-U', username, pathname.slice(1)],
        ],
        { env: { ...process.env, PGPASSWORD: password }, stdout: 'pipe', stderr: 'pipe' },
      );
      const [output, problem] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
      ]);
      bench.record(`${readFileSync(path, 'utf8')}\n${output}${problem}`);
      const failed = /number of failed transactions: ([1-9]\d*)/.exec(output)?.[1];
      // With many clients and a short time not one may have ended: then there is no rate in its report.
      const isNone = /transactions actually processed: 0$/m.test(output);
      const tps = isNone ? '0' : /^tps = ([\d.]+)/m.exec(output)?.[1];
      if ((await child.exited) !== 0 || tps === undefined || failed !== undefined) {
        throw new Error(`pgbench failed: ${problem}${output}`);
      }
      return Number(tps);
    },
  };
}

async function fill(url: string, sizes: { readonly spaces: number; readonly nodes: number }): Promise<void> {
  const database = new Database(url, { max: 1 });
  try {
    const each = `generate_series(1, ${sizes.spaces}) AS s(s), generate_series(1, ${sizes.nodes}) AS i(i)`;
    const space = `('00000000-0000-0000-0000-' || lpad(s::text, 12, '0'))::uuid`;
    const hash = `sha256(convert_to(i::text, 'UTF8'))`;
    const now = 'floor(extract(epoch FROM now()) * 1000)::bigint';
    await database.unsafe(
      `INSERT INTO nodes (space, hash, generation, size, canonical_size, lease_started_at, lease_expires_at, child_ref_count,
         root_ref_count, waiting_touched_at, claim_held_until, held_domain_count, state, inline, collectable, lease_counted,
         content_type, refs)
       SELECT ${space}, ${hash}, substr(${hash}, 1, 16), 4096, 4200, ${now}, ${now} + 1000, 0, 1, 0, 0, 1, 1, false, false, true,
         'application/octet-stream', '\\x' FROM ${each}`,
    );
    await database.unsafe(
      `INSERT INTO balances (space, domain, hash, balance, from_revision) SELECT ${space}, '${DOMAIN}', ${hash}, 1, 1 FROM ${each}`,
    );
    await database.unsafe(
      `INSERT INTO domains (space, domain, revision, history_floor)
       SELECT ${space}, '${DOMAIN}', 1, 0 FROM generate_series(1, ${sizes.spaces}) AS s(s)`,
    );
    await database.unsafe('VACUUM ANALYZE');
  } finally {
    await database.close();
  }
}

/** `$1`, `$2` … of a statement filled in; the rest of the text is the server's own. */
function fillIn(name: keyof typeof SPACE_STATEMENTS, values: readonly string[]): string {
  const text = SPACE_STATEMENTS[name].replace(/\s+--.*$/gm, '');
  const filled = text.replace(/\$(\d+)/g, (_, number) => `(${values[Number(number) - 1]})`);
  return `${filled.replace(/\s+/g, ' ')};`;
}

const hashes = `ARRAY[${HASH}]`;
const DOMAINS = `ARRAY['${DOMAIN}']`;
const REVISION = `(SELECT revision FROM domains WHERE space = ${SPACE} AND domain = '${DOMAIN}')`;
const REQUEST_IDS = `ARRAY[convert_to(${UNIQUE}::text, 'UTF8')]`;

export const RENEWAL_SCRIPT: PgbenchScript = {
  text: fillIn('renewReadyLeases', [SPACE, hashes, `ARRAY[${LEASE_DURATION_MS_MAX}]`, 'NULL', '0']),
  mode: 'prepared',
};

/** The two trips of a commit of one change: everything is read and locked, everything is written. */
const COMMIT_READS = [
  'BEGIN;',
  fillIn('lockDomains', [SPACE, DOMAINS]),
  fillIn('findCommits', [SPACE, DOMAINS, REQUEST_IDS]),
  fillIn('lockNodes', [SPACE, hashes]),
  fillIn('findBalances', [SPACE, DOMAINS, hashes]),
];
const COMMIT_WRITES = [
  fillIn('advanceRevisions', [...[SPACE, DOMAINS, `ARRAY[${REVISION}]`, `ARRAY[${REVISION} + 1]`], '1']),
  fillIn('insertCommits', [
    ...[SPACE, DOMAINS, REQUEST_IDS, `ARRAY[sha256(convert_to(${UNIQUE}::text, 'UTF8'))]`],
    'ARRAY[2]',
  ]),
  fillIn('insertHistory', [
    ...[SPACE, DOMAINS, hashes, `ARRAY[${UNIQUE}]`, `ARRAY[${UNIQUE} + 1]`],
    ...['ARRAY[1]', 'NULL'],
  ]),
  fillIn('setBalances', [SPACE, DOMAINS, hashes, 'ARRAY[2]', 'ARRAY[2]']),
  fillIn('updateNodeCounts', [SPACE, hashes, 'ARRAY[0]', 'ARRAY[2]', 'ARRAY[1]', 'ARRAY[false]', '1']),
  'COMMIT;',
];

/** Each way has what the other lacks, pipelines or prepared statements: the faster one is the peer. */
export const COMMIT_SCRIPTS: readonly PgbenchScript[] = [
  { text: [...COMMIT_READS, ...COMMIT_WRITES].join('\n'), mode: 'prepared' },
  {
    text: [COMMIT_READS, COMMIT_WRITES]
      .flatMap((trip) => ['\\startpipeline', ...trip, '\\endpipeline'])
      .join('\n'),
    mode: 'extended',
  },
];
