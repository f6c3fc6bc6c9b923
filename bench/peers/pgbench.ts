/** What PostgreSQL can do by itself: pgbench with the very statements of the server, on rows of the same shape. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQL as Database } from 'bun';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';
import type { Bench } from '../bench.ts';
import { migrateDatabase } from '../scaleout.ts';
import { formatNumber } from '../stats.ts';
import { findProgram } from './packages.ts';
import { DOMAIN, type PgbenchScript } from './pgbench-scripts.ts';

export interface PgbenchPeer {
  /** Tries each script with as many connections as the load has, and as one of our processes keeps; the fastest it is. */
  choose(scripts: readonly PgbenchScript[], loadConnections: number): Promise<PgbenchLoad>;
}

export interface PgbenchLoad {
  /** which script and connections it is, and what the others came to */
  readonly note: string;
  /** transactions per second over all connections */
  run(): Promise<number>;
}

interface Sizes {
  readonly spaces: number;
  /** of each Space */
  readonly nodes: number;
  /** how many of them the scripts draw from */
  readonly drawn: number;
}

interface Prepared {
  readonly bench: Bench;
  readonly program: string;
  readonly url: string;
  readonly sizes: Sizes;
  /** of the session, as the server's own connections have them */
  readonly settings: Readonly<Record<string, string>>;
}

interface Try {
  readonly script: PgbenchScript;
  readonly connections: number;
}

/** pgbench's time begins before its connections are open; the rate it tells does not count that. */
const CONNECT_SECONDS = 1;

/** Fills a database of the server's own schema with ready, leased rows. */
export async function preparePgbench(bench: Bench, url: string, sizes: Sizes): Promise<PgbenchPeer> {
  const program = findProgram('pgbench');
  if (program === undefined) throw new Error('pgbench is not installed.');
  const settings = await migrateDatabase(url);
  await fill(url, sizes);
  const prepared: Prepared = { bench, program, url, sizes, settings };
  const ofProcess = parsePostgresUrl(url, {}).connectionsMax;
  return {
    async choose(scripts, loadConnections) {
      const counts = bench.quick ? [ofProcess] : [...new Set([loadConnections, ofProcess])];
      const tries = scripts.flatMap((script) => counts.map((connections) => ({ script, connections })));
      const rates: number[] = [];
      for (const each of tries) rates.push(await runScript(prepared, each));
      const best = tries[rates.indexOf(Math.max(...rates))] as Try;
      const describe = (each: Try, index: number): string =>
        `${each.script.way} over ${each.connections} connections (${formatNumber(rates[index] as number)}/s)`;
      const note = `pgbench: ${best.script.way} over ${best.connections} connections, the fastest of ${tries.map(describe).join(', ')}`;
      return {
        note,
        async run() {
          const rate = await runScript(prepared, best);
          if (rate === 0 && !bench.quick)
            throw new Error('pgbench ended no transaction within the time of a round: give --seconds more.');
          return rate;
        },
      };
    },
  };
}

async function runScript(
  { bench, program, url, sizes, settings }: Prepared,
  { script, connections }: Try,
): Promise<number> {
  const path = join(bench.folder, 'pgbench.sql');
  const draw = `\\set s random(1, ${sizes.spaces})\n\\set i random(1, ${sizes.drawn})\n`;
  writeFileSync(path, `${draw}${script.text}`);
  const variables = Object.entries(script.variables ?? {}).flatMap(([name, value]) => [
    '-D',
    `${name}=${value}`,
  ]);
  const { hostname, port, username, password, pathname } = new URL(url);
  const options = Object.entries(settings).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`,
  );
  const child = Bun.spawn(
    [
      ...[program, '-n', '-M', script.mode, '-c', String(connections), '-j', '2', ...variables],
      ...['-T', String(Math.max(1, Math.round(bench.seconds)) + CONNECT_SECONDS), '-f', path],
      ...['-h', hostname, '-p', port, '-U', username, pathname.slice(1)],
    ],
    {
      env: { ...process.env, PGPASSWORD: password, PGOPTIONS: options.join(' ') },
      stdout: 'pipe',
      stderr: 'pipe',
    },
  );
  const [output, problem] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  bench.record(`${options.join(' ')}\n${readFileSync(path, 'utf8')}\n${output}${problem}`);
  const failed = /number of failed transactions: ([1-9]\d*)/.exec(output)?.[1];
  // With many clients and a short time not one may have ended: then there is no rate in its report.
  const isNone = /transactions actually processed: 0$/m.test(output);
  const tps = isNone ? '0' : /^tps = ([\d.]+)/m.exec(output)?.[1];
  if ((await child.exited) !== 0 || tps === undefined || failed !== undefined) {
    throw new Error(`pgbench failed: ${problem}${output}`);
  }
  return Number(tps);
}

/** The hash of the n-th node of every Space, hex; pgbench computes the same. */
export function hashOfNode(n: number): string {
  return createHash('sha256').update(String(n)).digest('hex');
}

async function fill(url: string, sizes: Sizes): Promise<void> {
  const database = new Database(url, { max: 1 });
  try {
    const each = `generate_series(1, ${sizes.spaces}) AS s(s), generate_series(1, ${sizes.nodes}) AS i(i)`;
    const space = `('00000000-0000-0000-0000-' || lpad(s::text, 12, '0'))::uuid`;
    const hash = `sha256(convert_to(i::text, 'UTF8'))`;
    const now = 'floor(extract(epoch FROM now()) * 1000)::bigint';
    await database.unsafe(
      `INSERT INTO nodes (space, hash, generation, size, canonical_size, lease_started_at, lease_expires_at, child_ref_count,
         root_ref_count, waiting_touched_at, claim_held_until, held_domain_count, state, inline, collectable, lease_counted,
         content_type, refs, lease_due_at)
       SELECT ${space}, ${hash}, substr(${hash}, 1, 16), 4096, 4200, ${now}, ${now} + 1000, 0, 1, 0, 0, 1, 1, false, false, true,
         'application/octet-stream', '\\x', ${now} + 1000 FROM ${each}`,
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
