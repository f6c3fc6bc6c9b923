/** readContent against nginx serving the same bytes as files: 4 KiB in requests, 8 MiB in bytes. */
import { atLeast, type Bench, interleave, type Row, type RowResult, SLOW_ROUND_FACTOR } from '../bench.ts';
import { type Holdfast, startHoldfast } from '../holdfast.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import { formatRequest } from '../load/spec.ts';
import { startNginx } from '../peers/nginx.ts';
import { LARGE_NODES, putLargeNodes, putSmallNodes, SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoads, mebibyteRate, rate } from './notes.ts';

export const CONTENT_ROW: Row = { name: 'content', packages: ['nginx-light', 'wrk'], run: runContentRow };

async function runContentRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'content' });
  try {
    const small = await putSmallNodes(bench, ours, 'content');
    const large = await putLargeNodes(ours, 'content');
    const files = new Map<string, Uint8Array>();
    for (const hash of [...small, ...large]) files.set(hash, await readContent(ours, hash));
    const nginx = await startNginx(bench, files);
    try {
      const compare = (hashes: readonly string[], seconds: number) =>
        compareReads(bench, ours, nginx, hashes, seconds);
      return [
        describeSmall(bench, await compare(small, bench.seconds), small.length),
        describeLarge(bench, await compare(large, bench.seconds * SLOW_ROUND_FACTOR)),
      ];
    } finally {
      await nginx.process.stop();
    }
  } finally {
    await ours.close();
  }
}

type Compared = Awaited<ReturnType<typeof compareReads>>;

function compareReads(
  bench: Bench,
  ours: Holdfast,
  nginx: Awaited<ReturnType<typeof startNginx>>,
  hashes: readonly string[],
  seconds: number,
) {
  const ofOurs = hashes.map((hash) => formatRead(ours, `/cas/nodes/${hash}/content`));
  const ofNginx = hashes.map((hash) => formatRequest({ method: 'GET', path: `/${hash}` }));
  return interleave(
    bench,
    () => loadFixed(bench, ours, ofOurs, { seconds }),
    () => loadFixed(bench, nginx, ofNginx, { seconds }),
  );
}

function describeSmall(bench: Bench, samples: Compared, count: number): RowResult {
  return {
    row: 'content-4k',
    workload: `readContent ${SMALL_CONTENT_BYTES} B, ${bench.connections} connections, ${count} nodes`,
    target: atLeast(0.35, 'nginx static, requests'),
    ours: { label: 'holdfast', unit: 'requests/s', values: samples.a.map(rate) },
    peer: { label: 'nginx', unit: 'requests/s', values: samples.b.map(rate) },
    notes: describeLoads(samples),
  };
}

function describeLarge(bench: Bench, samples: Compared): RowResult {
  return {
    row: 'content-8m',
    workload: `readContent 8 MiB, ${bench.connections} connections, ${LARGE_NODES} nodes, one copy of each`,
    target: atLeast(0.8, 'nginx static, bytes'),
    ours: { label: 'holdfast', unit: 'MiB/s', values: samples.a.map(mebibyteRate) },
    peer: { label: 'nginx', unit: 'MiB/s', values: samples.b.map(mebibyteRate) },
    notes: describeLoads(samples),
  };
}

async function readContent(server: Holdfast, hash: string): Promise<Uint8Array> {
  const response = await fetch(
    `http://127.0.0.1:${server.port}${server.spacePath}/cas/nodes/${hash}/content`,
    {
      headers: { authorization: `Bearer ${server.token}` },
    },
  );
  if (response.status !== 200) throw new Error(`readContent answered ${response.status}.`);
  return response.bytes();
}
