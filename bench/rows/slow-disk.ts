/** Reads beside renewals of leases on a disk whose every fsync takes 30 ms longer: nobody waits for the commits of others. */
import { join } from 'node:path';
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { type Bench, interleave, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { type Holdfast, startHoldfast } from '../holdfast.ts';
import { quantile } from '../stats.ts';
import { putSmallNodes } from './node-sets.ts';

/** A thread that writes and one that answers share no core here. */
export const SLOW_DISK_ROW: Row = {
  name: 'slow-disk',
  packages: [],
  run: (bench) => runUnpinned(bench, runSlowDiskRow),
};

const RENEWING_CALLERS = 2;
/** ms between two reads */
const READ_EVERY_MS = 5;
/** No lease ends later: every renewal is written. */
const LEASE_BODY = JSON.stringify({ leaseDurationMs: LEASE_DURATION_MS_MAX });

interface Sample {
  /** ms each */
  readonly reads: readonly number[];
  readonly renewalsPerSecond: number;
}

async function runSlowDiskRow(bench: Bench): Promise<readonly RowResult[]> {
  const library = join(bench.folder, 'slow-fsync.so');
  const source = join(import.meta.dir, 'slow-fsync.c');
  const built = Bun.spawnSync(['cc', '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl']);
  if (built.exitCode !== 0)
    throw new Error(`slow-fsync.c was not compiled: ${built.stderr.toString().trim()}`);
  const ours = await startHoldfast(bench, { name: 'slow-disk', environment: { LD_PRELOAD: library } });
  try {
    const hashes = await putSmallNodes(bench, ours, 'slow-disk');
    const { a, b } = await interleave(
      bench,
      () => measure(bench, ours, hashes, RENEWING_CALLERS),
      () => measure(bench, ours, hashes, 0),
    );
    return describeSamples(a, b);
  } finally {
    await ours.close();
  }
}

async function measure(
  bench: Bench,
  ours: Holdfast,
  hashes: readonly string[],
  callers: number,
): Promise<Sample> {
  const endAt = performance.now() + bench.seconds * 1000;
  const reads: number[] = [];
  let renewals = 0;
  const send = async (path: string, body?: string): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${ours.port}${ours.spacePath}/cas/nodes/${path}`, {
      ...(body === undefined ? {} : { method: 'POST', body }),
      headers: { authorization: `Bearer ${ours.token}`, 'content-type': 'application/json' },
    });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
  };
  const renew = async (caller: number): Promise<void> => {
    for (let turn = caller; performance.now() < endAt; turn += callers) {
      await send(`${hashes[turn % hashes.length]}/lease`, LEASE_BODY);
      renewals += 1;
    }
  };
  const read = async (): Promise<void> => {
    for (let turn = 0; performance.now() < endAt; turn += 1) {
      const sentAt = performance.now();
      await send(`${hashes[turn % hashes.length]}/${turn % 2 === 0 ? 'metadata' : 'content'}`);
      reads.push(performance.now() - sentAt);
      await Bun.sleep(READ_EVERY_MS);
    }
  };
  await Promise.all([read(), ...Array.from({ length: callers }, (_, caller) => renew(caller))]);
  const sample = { reads, renewalsPerSecond: renewals / bench.seconds };
  bench.record(`${JSON.stringify({ callers, done: reads.length, ...sample })}\n`);
  return sample;
}

function describeSamples(beside: readonly Sample[], alone: readonly Sample[]): RowResult[] {
  const workload = `content and metadata by one caller while ${RENEWING_CALLERS} renew leases, every fsync 30 ms slower`;
  const of = (samples: readonly Sample[], part: number): number[] =>
    samples.map(({ reads }) => quantile(reads, part));
  const latency = (row: string, part: number, bound: number): RowResult => ({
    row,
    workload,
    target: { figure: 'value', sense: 'at most', bound, text: `≤ ${bound} ms` },
    ours: { label: 'beside renewals', unit: 'ms', values: of(beside, part) },
    peer: { label: 'alone', unit: 'ms', values: of(alone, part) },
    notes: [],
  });
  const renewals = beside.map(({ renewalsPerSecond }) => renewalsPerSecond);
  return [
    latency('slow-disk-median', 0.5, 2),
    latency('slow-disk-p99', 0.99, 10),
    {
      row: 'slow-disk-renewals',
      workload,
      target: { figure: 'value', sense: 'at least', bound: 45, text: '≥ 45/s, more than one for each fsync' },
      ours: { label: 'renewals', unit: 'requests/s', values: renewals },
      peer: undefined,
      notes: [],
    },
  ];
}
