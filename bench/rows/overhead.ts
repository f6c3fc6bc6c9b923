/** The cost of metrics and shares in readMetadata: the same server with and without them, by the CPU time of each request. */
import { join } from 'node:path';
import { atLeast, type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { ROOT, startHoldfast } from '../holdfast.ts';
import { type LoadSample, loadFixed } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import { copyStripped } from '../stripped-sources.ts';
import { putSmallNodes } from './node-sets.ts';
import { describeLoads } from './notes.ts';

const MS_PER_SECOND = 1000;

/** Many short rounds: a machine that others use changes from one second to the next. */
export const OVERHEAD_ROW: Row = {
  name: 'overhead',
  packages: ['wrk'],
  usual: { rounds: 40, seconds: 1 },
  run: runOverheadRow,
};

async function runOverheadRow(bench: Bench): Promise<readonly RowResult[]> {
  const sources = join(bench.folder, 'stripped');
  copyStripped(ROOT, sources);
  const withBoth = await startHoldfast(bench, { name: 'overhead-with' });
  const without = await startHoldfast(bench, { name: 'overhead-without', sources });
  try {
    const [ours, peers] = [
      await putSmallNodes(bench, withBoth, 'overhead'),
      await putSmallNodes(bench, without, 'overhead'),
    ];
    const ourRequests = ours.map((hash) => formatRead(withBoth, `/cas/nodes/${hash}/metadata`));
    const peerRequests = peers.map((hash) => formatRead(without, `/cas/nodes/${hash}/metadata`));
    const samples = await interleave(
      bench,
      () => loadFixed(bench, withBoth, ourRequests),
      () => loadFixed(bench, without, peerRequests),
    );
    return [
      {
        row: 'overhead',
        workload: `authorised readMetadata, ${bench.connections} connections, ${ours.length} nodes`,
        target: atLeast(0.97, 'the same server without metrics and shares'),
        ours: { label: 'with', unit: 'requests/CPU s', values: samples.a.map(perCpuSecond) },
        peer: { label: 'without', unit: 'requests/CPU s', values: samples.b.map(perCpuSecond) },
        notes: describeLoads(samples),
      },
    ];
  } finally {
    await withBoth.close();
    await without.close();
  }
}

/** Requests by the time that the server worked, and not by the time that passed: other programs use the machine too. */
function perCpuSecond({ done, serverCpu, elapsedMs }: LoadSample): number {
  return (done * MS_PER_SECOND) / (serverCpu * elapsedMs);
}
