/** The slowest of a hundred reads while packs of another Space are compacted, against the same reads without. */
import { Database } from 'bun:sqlite';
import { join } from 'node:path';
import { encodeRecord, PACK_RECORDS_MAX } from '@holdfast/protocol';
import { type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { type EnteredSpace, type Holdfast, startHoldfast } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import { loadFixed } from '../load/run-load.ts';
import { formatRead } from '../load/space-requests.ts';
import { putSmallNodes, SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoads } from './notes.ts';
import { sendPack } from './send-pack.ts';

export const COMPACTION_ROW: Row = {
  name: 'compaction',
  packages: ['wrk'],
  usual: { rounds: 3, seconds: 10 },
  run: runCompactionRow,
};

/** The live records of a worn pack, of each ten. */
const LIVE_OF_TEN = 4;
/** worn packs for each second of a load: more than compaction gets done in it */
const PACKS_PER_SECOND = 2;
const LOOK_MS = 50;
/** Compaction looks for work every 10 s. */
const WAIT_MS_MAX = 60_000;

async function runCompactionRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = await startHoldfast(bench, { name: 'compaction', spaces: ['read', 'worn'] });
  try {
    const [space, worn] = ours.spaces as [EnteredSpace, EnteredSpace];
    const hashes = await putSmallNodes(bench, space, 'compaction');
    const requests = hashes.map((hash) => formatRead(space, `/cas/nodes/${hash}/content`));
    const next = createNodeSource(SMALL_CONTENT_BYTES, 'worn');
    const isDone: number[] = [];
    const samples = await interleave(
      bench,
      async () => {
        const dead = await wear(bench, ours, worn, next);
        const sample = await loadFixed(bench, ours, requests);
        const left = readDeadBytes(ours);
        if (left === 0 && !bench.quick)
          throw new Error('Compaction ended before the load: give --seconds less.');
        isDone.push(1 - left / dead);
        return sample;
      },
      async () => {
        await until(bench, () => readDeadBytes(ours) === 0);
        return loadFixed(bench, ours, requests);
      },
    );
    const share = Math.round(Math.min(...isDone) * 100);
    return [
      {
        row: 'compaction-p99',
        workload: `readContent ${SMALL_CONTENT_BYTES} B, ${bench.connections} connections, while packs of ${PACK_RECORDS_MAX} nodes are compacted`,
        target: { figure: 'ratio', sense: 'at most', bound: 1.5, text: '≤ 1.5 × without compaction' },
        ours: {
          label: 'while it runs',
          unit: 'ms p99',
          values: samples.a.map(({ latencyMs }) => latencyMs.p99),
        },
        peer: { label: 'without', unit: 'ms p99', values: samples.b.map(({ latencyMs }) => latencyMs.p99) },
        notes: [...describeLoads(samples), `compacted meanwhile: ${share}% of the dead bytes at least`],
      },
    ];
  } finally {
    await ours.close();
  }
}

/** Packs most of whose records are dead from the beginning: they do not have their digests. Resolves with the dead bytes. */
async function wear(
  bench: Bench,
  ours: Holdfast,
  space: EnteredSpace,
  next: ReturnType<typeof createNodeSource>,
): Promise<number> {
  const packs = Math.ceil(bench.seconds * PACKS_PER_SECOND);
  const count = bench.quick ? 20 : PACK_RECORDS_MAX;
  for (let pack = 0; pack < packs; pack += 1) {
    const records = Array.from({ length: count }, (_, index) => {
      const node = next();
      const isLive = index % 10 < LIVE_OF_TEN;
      return encodeRecord(isLive ? node.hash : reverse(node.hash), node.bytes.slice());
    });
    await sendPack(space, records);
  }
  const dead = readDeadBytes(ours);
  await until(bench, () => readDeadBytes(ours) < dead);
  return dead;
}

const reverse = (hash: string): string => [...hash].reverse().join('');

function readDeadBytes({ dataFolder }: Holdfast): number {
  const database = new Database(join(dataFolder, 'holdfast.db'), { readonly: true });
  try {
    const row = database.query<{ bytes: number }, []>('SELECT total(dead_bytes) AS bytes FROM packs').get();
    return row?.bytes ?? 0;
  } finally {
    database.close();
  }
}

/** The smoke run waits for nothing. */
async function until({ quick }: Bench, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!quick && !holds()) {
    if (performance.now() > deadline) throw new Error('Compaction does not come on.');
    await Bun.sleep(LOOK_MS);
  }
}
