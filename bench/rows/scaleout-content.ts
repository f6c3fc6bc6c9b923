/** Operations that move bytes, against the S3 store's own GET and PUT of the same bytes. */
import { atLeast, interleave, type RowResult } from '../bench.ts';
import { listProcesses } from '../child-process.ts';
import type { Holdfast } from '../holdfast.ts';
import { type LoadedSide, type LoadSample, loadFixed, runLoad } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import type { Flow } from '../load/spec.ts';
import { type Cores, pinProcess } from '../machine.ts';
import { presignWrites, type StoredObject, signReads } from '../peers/s3-objects.ts';
import { SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoad, mebibyteRate, rate } from './notes.ts';
import {
  describeProcesses,
  describeTrips,
  formatEach,
  HEAVY_CONNECTIONS,
  type MeasuredRow,
  SPACES,
  type Stage,
  startServers,
} from './scaleout-stage.ts';

export const PINNED_ROW = 'scaleout-content-8m-pinned';

const TARGET_MIN = 0.8;
/** More than a store on this machine takes. */
const PUTS_PER_SECOND_MAX = 5_000;

type UnnamedResult = Omit<RowResult, 'row'>;

/** Those of one number of processes, by name. */
export function listContent(stage: Stage, ours: Holdfast, processes: number): MeasuredRow[] {
  const comparisons = [
    ['scaleout-content-4k', compareSmallReads],
    ['scaleout-small-uploads', compareSmallUploads],
    ['scaleout-content-8m', compareLargeReads],
  ] as const;
  return comparisons.map(([name, compare]) => {
    const row = `${name}-${processes}`;
    return [row, async () => ({ ...(await compare(stage, ours, processes)), row })];
  });
}

async function compareSmallReads(stage: Stage, ours: Holdfast, processes: number): Promise<UnnamedResult> {
  const { bench, smallObjects } = stage;
  const requests = formatEach(stage, ours, (space, hash) => formatRead(space, `/cas/nodes/${hash}/content`));
  const samples = await interleave(
    bench,
    () => loadFixed(bench, ours, requests),
    () => loadGateway(stage, smallObjects.slice(0, requests.length), bench.connections),
  );
  return {
    workload: `readContent ${SMALL_CONTENT_BYTES} B; ${describeProcesses(processes)}, ${bench.connections} connections, ${SPACES} Spaces, ${requests.length} nodes, nothing pinned`,
    target: undefined,
    ours: { label: 'holdfast', unit: 'requests/s', values: samples.a.map(rate) },
    peer: { label: 'Ceph RGW', unit: 'requests/s', values: samples.b.map(rate) },
    notes: [
      describeLoad('ours', samples.a),
      describeLoad('peer', samples.b),
      `ours reads a row first; ${describeTrips(stage, 'readContent')}`,
    ],
  };
}

async function compareSmallUploads(stage: Stage, ours: Holdfast, processes: number): Promise<UnnamedResult> {
  const { bench, deployment, engines } = stage;
  const put = (side: LoadedSide, round: number, flow: Flow): Promise<LoadSample> =>
    runLoad(bench, side.process, {
      port: side.port,
      connections: bench.connections,
      seconds: bench.seconds,
      seed: `scaleout-${flow.kind}-${processes}-${round}`,
      flow,
    });
  const count = Math.ceil(PUTS_PER_SECOND_MAX * bench.seconds);
  const samples = await interleave(
    bench,
    (round) =>
      put(ours, round, { kind: 'put-nodes', spaces: ours.spaces, contentBytes: SMALL_CONTENT_BYTES }),
    (round) =>
      put(engines.gateway, round, {
        kind: 'put-objects',
        targets: presignWrites(deployment.bucket, count),
        contentBytes: SMALL_CONTENT_BYTES,
      }),
  );
  return {
    workload: `new nodes, lease + PUT ${SMALL_CONTENT_BYTES} B to S3 + lease; ${describeProcesses(processes)}, ${bench.connections} connections, ${SPACES} Spaces, nothing pinned`,
    target: undefined,
    ours: { label: 'holdfast', unit: 'nodes/s', values: samples.a.map(rate) },
    peer: { label: 'Ceph RGW', unit: 'PUTs/s', values: samples.b.map(rate) },
    notes: [
      describeLoad('ours', samples.a),
      describeLoad('peer', samples.b),
      `a node is two requests to us and one PUT by its client; ${describeTrips(stage, 'lease that opens an upload', 'lease that validates and publishes 4 KiB')}`,
    ],
  };
}

async function compareLargeReads(stage: Stage, ours: Holdfast, processes: number): Promise<UnnamedResult> {
  const samples = await loadLarge(stage, ours);
  return {
    ...describeLarge(stage, samples),
    workload: `readContent 8 MiB; ${describeProcesses(processes)}, ${HEAVY_CONNECTIONS} connections, ${stage.large.length} nodes, nothing pinned`,
    target: atLeast(TARGET_MIN, "the S3 server's own GET of the same objects"),
  };
}

/** Our server has a core to itself; engines, load and bench share the other, on the peer's side too. */
export async function comparePinnedReads(stage: Stage, cores: Cores): Promise<RowResult> {
  const ours = await startServers({ ...stage.bench, cores }, stage.deployment, 1);
  const own = new Set(listProcesses(ours.process.pid));
  const others = (): number[] => listProcesses(process.pid).filter((pid) => !own.has(pid));
  try {
    for (const pid of others()) pinProcess(pid, cores.load);
    return {
      ...describeLarge(stage, await loadLarge(stage, ours)),
      row: PINNED_ROW,
      workload: `readContent 8 MiB; 1 process on core ${cores.server}, engines and load on core ${cores.load}, ${HEAVY_CONNECTIONS} connections, ${stage.large.length} nodes`,
      target: undefined,
    };
  } finally {
    for (const pid of others()) pinProcess(pid, cores.server, cores.load);
    await ours.close();
  }
}

function loadLarge(stage: Stage, ours: Holdfast): Promise<{ a: LoadSample[]; b: LoadSample[] }> {
  const { bench, large, largeObjects } = stage;
  const requests = large.map((hash) => formatRead(ours, `/cas/nodes/${hash}/content`));
  return interleave(
    bench,
    () => loadFixed(bench, ours, requests, { connections: HEAVY_CONNECTIONS }),
    () => loadGateway(stage, largeObjects, HEAVY_CONNECTIONS),
  );
}

function describeLarge(
  stage: Stage,
  samples: { readonly a: readonly LoadSample[]; readonly b: readonly LoadSample[] },
): Pick<RowResult, 'ours' | 'peer' | 'notes'> {
  return {
    ours: { label: 'holdfast', unit: 'MiB/s', values: samples.a.map(mebibyteRate) },
    peer: { label: 'Ceph RGW', unit: 'MiB/s', values: samples.b.map(mebibyteRate) },
    notes: [
      describeLoad('ours', samples.a),
      describeLoad('peer', samples.b),
      describeTrips(stage, 'readContent'),
    ],
  };
}

function loadGateway(
  { bench, engines, deployment }: Stage,
  objects: readonly StoredObject[],
  connections: number,
): Promise<LoadSample> {
  return loadFixed(bench, engines.gateway, signReads(deployment.bucket, objects), { connections });
}
