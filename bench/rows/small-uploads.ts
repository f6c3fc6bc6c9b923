/** New small nodes, durable: lease, PUT 4 KiB, lease, against docker-registry taking the same bytes as blobs. */
import { atLeast, type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { startHoldfast } from '../holdfast.ts';
import { runLoad } from '../load/run-load.ts';
import type { Flow, LoadSpec } from '../load/spec.ts';
import { startRegistry } from '../peers/docker-registry.ts';
import { SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoads, rate } from './notes.ts';

export const SMALL_UPLOADS_ROW: Row = {
  name: 'small-uploads',
  packages: ['docker-registry'],
  run: runSmallUploadsRow,
};

async function runSmallUploadsRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'small-uploads' });
  const registry = await startRegistry(bench);
  try {
    const spec = (port: number, round: number, flow: Flow): LoadSpec => ({
      port,
      connections: bench.connections,
      seconds: bench.seconds,
      seed: `small-${flow.kind}-${round}`,
      flow,
    });
    const puts: Flow = { kind: 'put-nodes', spaces: ours.spaces, contentBytes: SMALL_CONTENT_BYTES };
    const pushes: Flow = { kind: 'push-blobs', repository: 'bench', contentBytes: SMALL_CONTENT_BYTES };
    const samples = await interleave(
      bench,
      (round) => runLoad(bench, ours.process, spec(ours.port, round, puts)),
      (round) => runLoad(bench, registry.process, spec(registry.port, round, pushes)),
    );
    return [
      {
        row: 'small-uploads',
        workload: `new nodes, lease + PUT ${SMALL_CONTENT_BYTES} B + lease, durable, ${bench.connections} connections`,
        target: atLeast(10, 'docker-registry’s blob push of the same bytes'),
        ours: { label: 'holdfast', unit: 'nodes/s', values: samples.a.map(rate) },
        peer: { label: 'docker-registry', unit: 'blobs/s', values: samples.b.map(rate) },
        notes: [...describeLoads(samples), 'a node is three requests, a blob two (POST, PUT with digest)'],
      },
    ];
  } finally {
    await registry.process.stop();
    await ours.close();
  }
}
