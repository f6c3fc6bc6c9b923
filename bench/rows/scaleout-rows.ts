/** Operations that are rows alone, against pgbench with the statements that they send. */
import { atLeast, interleave, type RowResult } from '../bench.ts';
import type { Holdfast } from '../holdfast.ts';
import { type LoadSample, loadFixed } from '../load/run-load.ts';
import { formatCommit, formatLease, formatRead } from '../load/space-requests.ts';
import { COUNTER_MARKER, type RequestTemplate } from '../load/spec.ts';
import type { PgbenchLoad } from '../peers/pgbench.ts';
import { describeLoad, rate } from './notes.ts';
import {
  describeProcesses,
  describeTrips,
  formatEach,
  HEAVY_CONNECTIONS,
  type MeasuredRow,
  SPACES,
  type Stage,
} from './scaleout-stage.ts';

const TARGET_MIN = 0.7;

interface Compared {
  readonly row: string;
  readonly workload: string;
  readonly peer: PgbenchLoad;
  readonly target: RowResult['target'];
  /** default: the bench's */
  readonly connections?: number;
  readonly requests: (round: number) => readonly RequestTemplate[];
  /** as the counted round trips name it */
  readonly operation: string;
}

/** Those of one number of processes, by name. */
export function listRows(stage: Stage, ours: Holdfast, processes: number): MeasuredRow[] {
  const { peers, commitNodes } = stage;
  const renewals = formatEach(stage, ours, formatLease);
  const reads = formatEach(stage, ours, (space, hash) => formatRead(space, `/cas/nodes/${hash}/metadata`));
  const many = ours.spaces.map((space, at) => ({ space, hashes: stage.hashes[at] ?? [] }));
  const rows: readonly Compared[] = [
    {
      row: 'scaleout-metadata',
      workload: 'readMetadata',
      peer: peers.reads,
      target: undefined,
      requests: () => reads,
      operation: 'readMetadata',
    },
    {
      row: 'scaleout-renewal',
      workload: 'ready-lease renewal; renewals of one Space that wait share a statement',
      peer: peers.renewals,
      target: atLeast(TARGET_MIN, 'pgbench with the same statement'),
      requests: () => renewals,
      operation: 'lease of a ready node',
    },
    {
      row: 'scaleout-commits',
      workload: 'commits of 1 delta; commits of one Space that wait share a transaction',
      peer: peers.smallCommits,
      target: atLeast(
        TARGET_MIN,
        'pgbench with the same statements, pipelined or prepared, whichever is faster',
      ),
      requests: (round) =>
        formatEach(stage, ours, (space, hash) =>
          formatCommit(space, [hash], nameCommit(1, processes, round)),
        ),
      operation: 'commit of 1',
    },
    {
      row: `scaleout-commits-of-${commitNodes}`,
      workload: `commits of ${commitNodes} deltas; commits of one Space that wait share a transaction where it is not too large`,
      peer: peers.largeCommits,
      connections: HEAVY_CONNECTIONS,
      target: atLeast(
        TARGET_MIN,
        'pgbench with the same statements, pipelined or prepared, whichever is faster',
      ),
      requests: (round) =>
        many.map(({ space, hashes }) =>
          formatCommit(space, hashes, nameCommit(commitNodes, processes, round)),
        ),
      operation: `commit of ${commitNodes}`,
    },
  ];
  return rows.map((row) => [`${row.row}-${processes}`, () => compare(stage, ours, processes, row)]);
}

/** A counter starts again with every load, so what it runs in is part of the request's id. */
function nameCommit(deltas: number, processes: number, round: number): string {
  return `${deltas}-${processes}-${round}-${COUNTER_MARKER}`;
}

async function compare(stage: Stage, ours: Holdfast, processes: number, row: Compared): Promise<RowResult> {
  const { bench } = stage;
  const { connections = bench.connections } = row;
  const samples = await interleave(
    bench,
    (round): Promise<LoadSample> => loadFixed(bench, ours, row.requests(round), { connections }),
    () => row.peer.run(),
  );
  return {
    row: `${row.row}-${processes}`,
    workload: `${row.workload}; ${describeProcesses(processes)}, ${connections} connections, ${SPACES} Spaces, nothing pinned`,
    target: row.target,
    ours: { label: 'holdfast', unit: 'requests/s', values: samples.a.map(rate) },
    peer: { label: 'pgbench', unit: 'transactions/s', values: samples.b },
    notes: [describeLoad('ours', samples.a), row.peer.note, describeTrips(stage, row.operation)],
  };
}
