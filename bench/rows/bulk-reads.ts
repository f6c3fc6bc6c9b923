/** A single read of 4 KiB from a pack, against the same read of a node that came by itself. */
import { encodeRecord } from '@holdfast/protocol';
import { atLeast, type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { type EnteredSpace, startHoldfast } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import { putSmallNodes, SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoads, rate } from './notes.ts';
import { sendPack } from './send-pack.ts';

export const BULK_READS_ROW: Row = { name: 'bulk-reads', packages: ['wrk'], run: runBulkReadsRow };

async function runBulkReadsRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'bulk-reads', spaces: ['packed', 'single'] });
  try {
    const [packed, single] = ours.spaces as [EnteredSpace, EnteredSpace];
    const hashes = await putSmallNodes(bench, single, 'bulk-reads');
    await putPack(packed, hashes.length);
    const read = (space: EnteredSpace) =>
      loadFixed(
        bench,
        ours,
        hashes.map((hash) => formatRead(space, `/cas/nodes/${hash}/content`)),
      );
    const samples = await interleave(
      bench,
      () => read(packed),
      () => read(single),
    );
    return [
      {
        row: 'bulk-read-4k',
        workload: `readContent ${SMALL_CONTENT_BYTES} B, ${bench.connections} connections, ${hashes.length} nodes of one pack`,
        target: atLeast(0.9, 'the same nodes, each uploaded by itself'),
        ours: { label: 'from a pack', unit: 'requests/s', values: samples.a.map(rate) },
        peer: { label: 'by themselves', unit: 'requests/s', values: samples.b.map(rate) },
        notes: describeLoads(samples),
      },
    ];
  } finally {
    await ours.close();
  }
}

/** The same nodes as `putSmallNodes` makes, in one pack, as they are: they do not compress. */
async function putPack(space: EnteredSpace, count: number): Promise<void> {
  const next = createNodeSource(SMALL_CONTENT_BYTES, 'bulk-reads');
  const records = Array.from({ length: count }, () => {
    const { hash, bytes } = next();
    return encodeRecord(hash, bytes.slice());
  });
  const ready = await sendPack(space, records);
  if (ready < count) throw new Error(`${count - ready} nodes of the pack did not become ready.`);
}
