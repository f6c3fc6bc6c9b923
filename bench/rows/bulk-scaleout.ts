/** Bulk on PostgreSQL and S3: nodes per second against single uploads, and what a push costs at the store. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { atLeast, type Bench, interleave, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { runLoad } from '../load/run-load.ts';
import type { Flow } from '../load/spec.ts';
import { startRequestCounter } from '../peers/request-counter.ts';
import { listTreePeers } from '../peers/tree-tools.ts';
import { type Engines, makeDeployment, startEngines, startScaleoutHoldfast } from '../scaleout.ts';
import { describeMost, diskBytesOf } from '../trees/compare-tools.ts';
import { createHoldfastTool } from '../trees/holdfast-trees.ts';
import { makeManyFiles, type TreeInput } from '../trees/tree-input.ts';
import { SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoads, rate } from './notes.ts';

export const BULK_SCALEOUT_ROW: Row = {
  name: 'bulk-scaleout',
  packages: ['postgresql-15', 'radosgw', 'restic'],
  usual: { rounds: 3, seconds: 3 },
  run: (bench) => runUnpinned(bench, runBulkScaleoutRow),
};

const RATIO_MIN = 15;
const NODES_PER_PACK = 1000;
const QUICK_NODES_PER_PACK = 20;
/** A client makes one pack while two are under way. */
const PACKS_AT_ONCE = 3;
const FILES = 10_000;
const REQUESTS_PER_1000_MAX = 5;
const SENT_RATIO_MAX = 1.05;

async function runBulkScaleoutRow(bench: Bench): Promise<readonly RowResult[]> {
  const engines = await startEngines(bench);
  try {
    return [await compareUploads(bench, engines), ...(await measurePush(bench, engines))];
  } finally {
    await engines.close();
  }
}

async function compareUploads(bench: Bench, engines: Engines): Promise<RowResult> {
  const deployment = await makeDeployment(engines);
  const ours = await startScaleoutHoldfast(bench, deployment, {
    name: 'bulk',
    processes: 1,
    spaces: ['packed', 'single'],
  });
  const nodesPerPack = bench.quick ? QUICK_NODES_PER_PACK : NODES_PER_PACK;
  const contentBytes = SMALL_CONTENT_BYTES;
  const [packed, single] = [ours.spaces.slice(0, 1), ours.spaces.slice(1)];
  const load = (flow: Flow, connections: number, round: number) =>
    runLoad(bench, ours.process, {
      port: ours.port,
      connections,
      seconds: bench.seconds,
      seed: `${flow.kind}-${round}`,
      flow,
    });
  try {
    const samples = await interleave(
      bench,
      (round) =>
        load({ kind: 'put-packs', spaces: packed, contentBytes, nodesPerPack }, PACKS_AT_ONCE, round),
      (round) => load({ kind: 'put-nodes', spaces: single, contentBytes }, bench.connections, round),
    );
    return {
      row: 'bulk-scaleout-nodes',
      workload: `new nodes of ${contentBytes} B on PostgreSQL and S3: packs of ${nodesPerPack}, ${PACKS_AT_ONCE} at once`,
      target: atLeast(RATIO_MIN, `single uploads, ${bench.connections} connections`),
      ours: {
        label: 'in packs',
        unit: 'nodes/s',
        values: samples.a.map((sample) => rate(sample) * nodesPerPack),
      },
      peer: { label: 'by themselves', unit: 'nodes/s', values: samples.b.map(rate) },
      notes: [
        ...describeLoads(samples),
        'server CPU of packs is for each pack, of single uploads for each node',
      ],
    };
  } finally {
    await ours.close();
  }
}

/** One push of a new tree through a counter in front of the store. */
async function measurePush(bench: Bench, engines: Engines): Promise<RowResult[]> {
  const input = makeManyFiles(join(bench.folder, 'bulk-files'), bench.quick ? 60 : FILES);
  const counter = await startRequestCounter(engines.gateway.port);
  const deployment = await makeDeployment(engines);
  const bucket = { ...deployment.bucket, endpoint: `http://127.0.0.1:${counter.port}` };
  const counted = { ...deployment, bucket };
  const tool = createHoldfastTool(bench, () =>
    startScaleoutHoldfast(bench, counted, { name: 'bulk-push', processes: 1, spaces: ['bench'] }),
  );
  await tool.begin();
  try {
    const [requestsBefore, sentBefore] = [counter.requests, counter.sentBytes];
    const { nodes = Number.NaN, elapsedMs } = await tool.push(input.folder);
    const [requests, sentBytes] = [counter.requests - requestsBefore, counter.sentBytes - sentBefore];
    const workload = `first push of ${input.files} files to PostgreSQL and S3`;
    return [
      describeMost(
        'bulk-s3-requests',
        `S3 requests for each 1,000 small nodes: ${workload}`,
        REQUESTS_PER_1000_MAX,
        {
          values: [(requests / nodes) * 1000],
          unit: 'requests',
          text: `≤ ${REQUESTS_PER_1000_MAX} for each 1,000 small nodes`,
          notes: [
            `${requests} requests for ${nodes} nodes in ${(elapsedMs / 1000).toFixed(1)} s: the client's PUTs, and what the server asks meanwhile`,
          ],
        },
      ),
      await compareSent(bench, input, workload, sentBytes),
    ];
  } finally {
    await tool.end();
    await counter.close();
    rmSync(input.folder, { recursive: true, force: true });
  }
}

async function compareSent(
  bench: Bench,
  input: TreeInput,
  workload: string,
  sentBytes: number,
): Promise<RowResult> {
  const restic = listTreePeers(bench).find(({ name }) => name === 'restic');
  if (restic === undefined) throw new Error('restic is not installed.');
  await restic.begin();
  try {
    await restic.push(input.folder);
    const stored = await diskBytesOf(restic.store());
    return {
      row: 'bulk-s3-bytes',
      workload: `bytes sent to S3: ${workload}`,
      target: {
        figure: 'ratio',
        sense: 'at most',
        bound: SENT_RATIO_MAX,
        text: `≤ ${SENT_RATIO_MAX} × what restic stores of it`,
      },
      ours: { label: 'sent', unit: 'MiB', values: [sentBytes / 2 ** 20] },
      peer: { label: 'restic stores', unit: 'MiB', values: [stored / 2 ** 20] },
      notes: ['heads of requests included; restic: du of its repository'],
    };
  } finally {
    await restic.end();
  }
}
