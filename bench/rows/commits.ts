/** Durable root-ref commits of 1 and of 1000 deltas, and of a lone caller, against the same row changes hand-written on SQLite. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT_REF_CHANGES_MAX } from '@holdfast/protocol';
import { atLeast, type Bench, interleave, type Row, type RowResult, SLOW_ROUND_FACTOR } from '../bench.ts';
import { childCommand } from '../child-process.ts';
import { call, type Holdfast, startHoldfast } from '../holdfast.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatCommit } from '../load/space-requests.ts';
import { COUNTER_MARKER, type RequestTemplate } from '../load/spec.ts';
import { pinned } from '../machine.ts';
import { type CommitResult, type CommitSpec, createCommitDatabase } from '../peers/sqlite-commits.ts';
import { putSmallNodes } from './node-sets.ts';
import { describeLoad, rate } from './notes.ts';

export const COMMITS_ROW: Row = { name: 'commits', packages: ['wrk'], run: runCommitsRow };

/** Distinct bodies of the large commits; each holds all nodes, so only the order of keys differs. */
const LARGE_BODIES = 4;

async function runCommitsRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'commits' });
  try {
    const hashes = await putSmallNodes(bench, ours, 'commits');
    const held = Object.fromEntries(hashes.map((hash) => [hash, 1]));
    await call(ours, 'POST', '/root-refs', { requestId: 'first', changes: held });
    const database = join(bench.folder, 'hand-written.sqlite');
    createCommitDatabase(database, hashes);
    const large = Math.min(ROOT_REF_CHANGES_MAX, hashes.length);
    // First, while both sides have as little history: the side that commits more has more of it to write among.
    const alone = await compareCommits(bench, ours, database, hashes, { deltas: large, connections: 1 });
    const { connections } = bench;
    return [
      await compareCommits(bench, ours, database, hashes, { deltas: 1, connections }),
      await compareCommits(bench, ours, database, hashes, { deltas: large, connections }),
      { ...alone, row: `${alone.row}-alone` },
    ];
  } finally {
    await ours.close();
  }
}

async function compareCommits(
  bench: Bench,
  ours: Holdfast,
  database: string,
  hashes: readonly string[],
  { deltas, connections }: { readonly deltas: number; readonly connections: number },
): Promise<RowResult> {
  const requests = formatCommits(ours, hashes, deltas);
  const seconds = deltas === 1 ? bench.seconds : bench.seconds * SLOW_ROUND_FACTOR;
  const samples = await interleave(
    bench,
    (round) => {
      const name = `${deltas}-${connections}-${round}-`;
      return loadFixed(bench, ours, nameRound(requests, name), { seconds, connections });
    },
    () => runHandWritten(bench, { path: database, hashes, deltas, seconds }),
  );
  return {
    row: `commits-${deltas}`,
    workload: `durable commits of ${deltas} delta${deltas === 1 ? '' : 's'}, ${connections} connection${connections === 1 ? '' : 's'}, ${hashes.length} nodes`,
    target: atLeast(0.5, 'the same row changes in hand-written SQLite transactions'),
    ours: { label: 'holdfast', unit: 'commits/s', values: samples.a.map(rate) },
    peer: {
      label: 'hand-written SQLite',
      unit: 'commits/s',
      values: samples.b.map((result) => (result.done * 1000) / result.elapsedMs),
    },
    notes: [describeLoad('ours', samples.a), describeHandWritten(samples.b)],
  };
}

const ROUND_MARKER = '{commits-round}';

function formatCommits(server: Holdfast, hashes: readonly string[], deltas: number): RequestTemplate[] {
  const bodies =
    deltas === 1
      ? hashes.map((hash) => [hash])
      : Array.from({ length: LARGE_BODIES }, (_, turn) => rotate(hashes, turn * 97).slice(0, deltas));
  return bodies.map((body) => formatCommit(server, body, ROUND_MARKER + COUNTER_MARKER));
}

/** A counter starts again in every round, so the round is part of the request's name; same length, so the framing holds. */
function nameRound(requests: readonly RequestTemplate[], round: string): RequestTemplate[] {
  const name = round.padStart(ROUND_MARKER.length, 'r');
  return requests.map((request) => ({ ...request, before: request.before.replace(ROUND_MARKER, name) }));
}

function rotate(items: readonly string[], by: number): string[] {
  const at = by % items.length;
  return [...items.slice(at), ...items.slice(0, at)];
}

async function runHandWritten(bench: Bench, spec: CommitSpec): Promise<CommitResult> {
  const specPath = join(bench.folder, 'commit-spec.json');
  const resultPath = join(bench.folder, 'commit-result.json');
  writeFileSync(specPath, JSON.stringify(spec));
  rmSync(resultPath, { force: true });
  const command = childCommand('sqlite-commits', specPath, resultPath);
  const child = Bun.spawn(pinned(command, bench.cores?.server), { stdout: 'inherit', stderr: 'pipe' });
  const problem = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`The hand-written commits failed: ${problem}`);
  const text = readFileSync(resultPath, 'utf8');
  bench.record(`${text}\n`);
  return JSON.parse(text) as CommitResult;
}

function describeHandWritten(results: readonly CommitResult[]): string {
  const share = results.reduce((sum, result) => sum + result.cpuMs / result.elapsedMs, 0) / results.length;
  return `peer: in-process, one transaction and one fsync per commit, CPU ${Math.round(share * 100)}%; ours may commit several requests with one fsync`;
}
