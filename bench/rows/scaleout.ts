/** The scale-out engine with 1, 2 and 4 processes against what PostgreSQL and the S3 store do by themselves in the same run. */
import { type Bench, interleave, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { call, type Holdfast, putNodes } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import { type LoadSample, runLoad } from '../load/run-load.ts';
import { formatCommit, formatLease, formatRead } from '../load/space-requests.ts';
import { COUNTER_MARKER, type RequestTemplate } from '../load/spec.ts';
import { COMMIT_SCRIPTS, type PgbenchPeer, preparePgbench, RENEWAL_SCRIPT } from '../peers/pgbench.ts';
import { presignStoredObjects } from '../peers/s3-objects.ts';
import {
  type Deployment,
  type Engines,
  makeDeployment,
  PROCESS_COUNTS,
  startEngines,
  startScaleoutHoldfast,
} from '../scaleout.ts';
import { LARGE_CONTENT_BYTES, LARGE_NODES, putLargeNodes, SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoad, mebibyteRate, rate } from './notes.ts';
import { describeTrips } from './scaleout-trips.ts';

export const SCALEOUT_ROW: Row = {
  name: 'scaleout',
  packages: ['wrk', 'postgresql-15', 'radosgw'],
  run: (bench) => runUnpinned(bench, runScaleoutRow),
};

/** Commits of one domain come one after another, so several Spaces are what an installation of some size sees. */
const SPACES = 8;
const NODES_PER_SPACE = 100;
/** 64 answers of 8 MiB at once would measure the queue. */
const LARGE_CONNECTIONS = 16;

interface Stage {
  readonly bench: Bench;
  readonly engines: Engines;
  readonly deployment: Deployment;
  readonly peer: PgbenchPeer;
  /** of each Space, in order */
  readonly hashes: readonly (readonly string[])[];
  readonly large: readonly string[];
}

const SPACE_NAMES = Array.from({ length: SPACES }, (_, index) => `space-${index}`);

/** Engines, servers and load share all cores, on our side as on the peer's. */
async function runScaleoutRow(bench: Bench): Promise<readonly RowResult[]> {
  const engines = await startEngines(bench);
  try {
    const deployment = await makeDeployment(engines);
    const nodes = bench.quick ? 4 : NODES_PER_SPACE;
    const peerUrl = await engines.postgres.createDatabase();
    const peer = await preparePgbench(bench, peerUrl, { spaces: SPACES, nodes });
    const first = await start(bench, deployment, 1);
    const hashes: string[][] = [];
    for (const space of first.spaces) {
      hashes.push(await putNodes(space, createNodeSource(SMALL_CONTENT_BYTES, space.spacePath), nodes));
    }
    const large = await putLargeNodes(first, 'scaleout', bench.quick ? 1 : LARGE_NODES);
    await first.close();
    const stage: Stage = { bench, engines, deployment, peer, hashes, large };
    const results: RowResult[] = [];
    for (const processes of bench.quick ? [1] : PROCESS_COUNTS) {
      const ours = await start(bench, deployment, processes);
      try {
        results.push(await compareRenewals(stage, ours, processes));
        results.push(await compareCommits(stage, ours, processes));
        results.push(await compareReads(stage, ours, processes));
      } finally {
        await ours.close();
      }
    }
    const trips = await describeTrips(deployment);
    bench.record(`${trips.join('\n')}\n`);
    return results.map((result, index) =>
      index === 0 ? { ...result, notes: [...result.notes, ...trips] } : result,
    );
  } finally {
    await engines.close();
  }
}

function start(bench: Bench, deployment: Deployment, processes: number): Promise<Holdfast> {
  return startScaleoutHoldfast(bench, deployment, { name: 'scaleout', processes, spaces: SPACE_NAMES });
}

async function compareRenewals(stage: Stage, ours: Holdfast, processes: number): Promise<RowResult> {
  const { bench, peer } = stage;
  const requests = eachNode(stage, ours, formatLease);
  const samples = await interleave(
    bench,
    () => load(bench, ours, requests),
    () => peer.run(RENEWAL_SCRIPT, bench.seconds),
  );
  return describe(
    'scaleout-renewal',
    processes,
    'ready-lease renewal; renewals of one Space that wait share a statement',
    samples,
    '≥ 0.7 × pgbench with the same statement',
  );
}

async function compareCommits(stage: Stage, ours: Holdfast, processes: number): Promise<RowResult> {
  const { bench, peer } = stage;
  for (const [index, space] of ours.spaces.entries()) {
    const changes = Object.fromEntries((stage.hashes[index] ?? []).map((hash) => [hash, 1]));
    await call(space, 'POST', '/root-refs', { requestId: 'first', changes });
  }
  const samples = await interleave(
    bench,
    (round) => load(bench, ours, formatCommits(stage, ours, `${processes}-${round}-`)),
    async () => {
      const rates: number[] = [];
      for (const script of COMMIT_SCRIPTS) rates.push(await peer.run(script, bench.seconds));
      return Math.max(...rates);
    },
  );
  return describe(
    'scaleout-commits',
    processes,
    'commits of 1 delta',
    samples,
    '≥ 0.7 × pgbench with the same statements: pipelined as ours, or prepared as ours, whichever is faster',
  );
}

function formatCommits(stage: Stage, ours: Holdfast, round: string): RequestTemplate[] {
  return eachNode(stage, ours, (space, hash) => formatCommit(space, [hash], round + COUNTER_MARKER));
}

/** In turn over the Spaces, so that neighbours on the wire belong to different ones. */
function eachNode(
  { hashes }: Stage,
  ours: Holdfast,
  format: (space: Holdfast['spaces'][number], hash: string) => RequestTemplate,
): RequestTemplate[] {
  const requests: RequestTemplate[] = [];
  for (let index = 0; index < (hashes[0]?.length ?? 0); index++) {
    for (const [at, space] of ours.spaces.entries()) {
      requests.push(format(space, hashes[at]?.[index] as string));
    }
  }
  return requests;
}

function load(bench: Bench, ours: Holdfast, requests: readonly RequestTemplate[]): Promise<LoadSample> {
  return runLoad(bench, ours.process, {
    port: ours.port,
    connections: bench.connections,
    seconds: bench.seconds,
    seed: 'scaleout',
    flow: { kind: 'fixed', requests, status: 200 },
  });
}

function describe(
  row: string,
  processes: number,
  workload: string,
  samples: { readonly a: readonly LoadSample[]; readonly b: readonly number[] },
  text: string,
): RowResult {
  return {
    row: `${row}-${processes}`,
    workload: `${workload}; ${processes} process${processes === 1 ? '' : 'es'}, 64 connections, ${SPACES} Spaces, nothing pinned`,
    target: { figure: 'ratio', sense: 'at least', bound: 0.7, text },
    ours: { label: 'holdfast', unit: 'requests/s', values: samples.a.map(rate) },
    peer: { label: 'pgbench', unit: 'transactions/s', values: samples.b },
    notes: [describeLoad('ours', samples.a)],
  };
}

async function compareReads(stage: Stage, ours: Holdfast, processes: number): Promise<RowResult> {
  const { bench, engines, deployment, large } = stage;
  const objects = await presignStoredObjects(deployment.bucket, LARGE_CONTENT_BYTES);
  if (objects.length < large.length) throw new Error('The bucket holds fewer large objects than were put.');
  const gateway = { port: Number(new URL(engines.ceph.endpoint).port), process: { cpuMs: () => 0 } };
  const read = (
    side: Pick<Holdfast, 'port'> & { process: { cpuMs(): number } },
    requests: RequestTemplate[],
  ) =>
    runLoad(bench, side.process, {
      port: side.port,
      connections: LARGE_CONNECTIONS,
      seconds: bench.seconds,
      seed: 'scaleout',
      flow: { kind: 'fixed', requests, status: 200 },
    });
  const samples = await interleave(
    bench,
    () =>
      read(
        ours,
        large.map((hash) => formatRead(ours, `/cas/nodes/${hash}/content`)),
      ),
    () => read(gateway, objects),
  );
  return {
    row: `scaleout-content-8m-${processes}`,
    workload: `readContent 8 MiB, ${processes} process${processes === 1 ? '' : 'es'}, ${LARGE_CONNECTIONS} connections, ${large.length} nodes, nothing pinned`,
    target: {
      figure: 'ratio',
      sense: 'at least',
      bound: 0.8,
      text: "≥ 0.8 × the S3 server's own GET of the same objects",
    },
    ours: { label: 'holdfast', unit: 'MiB/s', values: samples.a.map(mebibyteRate) },
    peer: { label: 'Ceph RGW', unit: 'MiB/s', values: samples.b.map(mebibyteRate) },
    notes: [describeLoad('ours', samples.a)],
  };
}
