/** Durable renewal of a ready lease against our own readMetadata, same nodes, same connections. */
import { type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { startHoldfast } from '../holdfast.ts';
import { runLoad } from '../load/run-load.ts';
import { formatRequest, type LoadSpec, type RequestTemplate } from '../load/spec.ts';
import { describeLoads, rate } from './notes.ts';
import { formatRead, putSmallNodes } from './small-nodes.ts';

export const RENEWAL_ROW: Row = { name: 'renewal', packages: ['wrk'], run: runRenewalRow };

/** The longest there is, so that every renewal moves its node's deadline by the time since the last one. */
const LEASE_DURATION_MS = 86_400_000;

async function runRenewalRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'renewal' });
  try {
    const hashes = await putSmallNodes(bench, ours, 'renewal');
    const renewals = hashes.map((hash) =>
      formatRequest({
        method: 'POST',
        path: `${ours.spacePath}/cas/nodes/${hash}/lease`,
        headers: { authorization: `Bearer ${ours.token}`, 'content-type': 'application/json' },
        body: `{"leaseDurationMs":${LEASE_DURATION_MS}}`,
      }),
    );
    const reads = hashes.map((hash) => formatRead(ours, `/cas/nodes/${hash}/metadata`));
    const spec = (requests: RequestTemplate[]): LoadSpec => ({
      port: ours.port,
      connections: bench.connections,
      seconds: bench.seconds,
      seed: 'renewal',
      flow: { kind: 'fixed', requests, status: 200 },
    });
    const samples = await interleave(
      bench,
      () => runLoad(bench, ours.process, spec(renewals)),
      () => runLoad(bench, ours.process, spec(reads)),
    );
    return [
      {
        row: 'renewal',
        workload: `durable ready-lease renewal, ${bench.connections} connections, ${hashes.length} nodes`,
        target: { figure: 'ratio', sense: 'at least', bound: 0.5, text: '≥ 0.5 × our own readMetadata' },
        ours: { label: 'renewal', unit: 'requests/s', values: samples.a.map(rate) },
        peer: { label: 'readMetadata', unit: 'requests/s', values: samples.b.map(rate) },
        notes: describeLoads(samples),
      },
    ];
  } finally {
    await ours.close();
  }
}
