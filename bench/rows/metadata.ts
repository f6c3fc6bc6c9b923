/** Authorised readMetadata against a bare Bun.serve that answers the same bytes to the same requests. */
import { join } from 'node:path';
import { type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { childCommand, startServer } from '../child-process.ts';
import { call, startHoldfast } from '../holdfast.ts';
import { runLoad } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import type { LoadSpec } from '../load/spec.ts';
import { putSmallNodes } from './node-sets.ts';
import { describeLoads, rate } from './notes.ts';

export const METADATA_ROW: Row = { name: 'metadata', packages: ['wrk'], run: runMetadataRow };

async function runMetadataRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'metadata' });
  const hashes = await putSmallNodes(bench, ours, 'metadata');
  const answer = JSON.stringify(await call<unknown>(ours, 'GET', `/cas/nodes/${hashes[0]}/metadata`));
  const bare = await startServer(childCommand('bare-answer', answer), {
    core: bench.cores?.server,
    logFile: join(bench.folder, 'bare.log'),
    ready: { line: /^listening on / },
  });
  const barePort = Number(bare.lines[0]?.split(' ').at(-1));
  try {
    const requests = hashes.map((hash) => formatRead(ours, `/cas/nodes/${hash}/metadata`));
    const spec = (port: number): LoadSpec => ({
      port,
      connections: bench.connections,
      seconds: bench.seconds,
      seed: 'metadata',
      flow: { kind: 'fixed', requests, status: 200 },
    });
    const samples = await interleave(
      bench,
      () => runLoad(bench, ours.process, spec(ours.port)),
      () => runLoad(bench, bare, spec(barePort)),
    );
    return [
      {
        row: 'metadata',
        workload: `authorised readMetadata, ${bench.connections} connections, ${hashes.length} nodes`,
        target: {
          figure: 'ratio',
          sense: 'at least',
          bound: 0.5,
          text: '≥ 0.5 × a bare Bun.serve JSON answer of the same size',
        },
        ours: { label: 'holdfast', unit: 'requests/s', values: samples.a.map(rate) },
        peer: { label: 'bare Bun.serve', unit: 'requests/s', values: samples.b.map(rate) },
        notes: describeLoads(samples),
      },
    ];
  } finally {
    await bare.stop();
    await ours.close();
  }
}
