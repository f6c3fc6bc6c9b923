/** Authorised readMetadata against a bare Bun.serve that answers the same bytes to the same requests. */
import { join } from 'node:path';
import { atLeast, type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { childCommand, startServer } from '../child-process.ts';
import { call, startHoldfast } from '../holdfast.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
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
    const samples = await interleave(
      bench,
      () => loadFixed(bench, ours, requests),
      () => loadFixed(bench, { process: bare, port: barePort }, requests),
    );
    return [
      {
        row: 'metadata',
        workload: `authorised readMetadata, ${bench.connections} connections, ${hashes.length} nodes`,
        target: atLeast(0.5, 'a bare Bun.serve JSON answer of the same size'),
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
