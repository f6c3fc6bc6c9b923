/** Durable renewal of a ready lease against our own readMetadata, same nodes, same connections. */
import { atLeast, type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { startHoldfast } from '../holdfast.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatLease, formatRead } from '../load/space-requests.ts';
import { putSmallNodes } from './node-sets.ts';
import { describeLoads, rate } from './notes.ts';

export const RENEWAL_ROW: Row = { name: 'renewal', packages: ['wrk'], run: runRenewalRow };

async function runRenewalRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'renewal' });
  try {
    const hashes = await putSmallNodes(bench, ours, 'renewal');
    const renewals = hashes.map((hash) => formatLease(ours, hash));
    const reads = hashes.map((hash) => formatRead(ours, `/cas/nodes/${hash}/metadata`));
    const samples = await interleave(
      bench,
      () => loadFixed(bench, ours, renewals),
      () => loadFixed(bench, ours, reads),
    );
    return [
      {
        row: 'renewal',
        workload: `durable ready-lease renewal, ${bench.connections} connections, ${hashes.length} nodes`,
        target: atLeast(0.5, 'our own readMetadata'),
        ours: { label: 'renewal', unit: 'requests/s', values: samples.a.map(rate) },
        peer: { label: 'readMetadata', unit: 'requests/s', values: samples.b.map(rate) },
        notes: describeLoads(samples),
      },
    ];
  } finally {
    await ours.close();
  }
}
