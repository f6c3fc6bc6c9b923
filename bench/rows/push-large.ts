/** One file of 1 GiB: push, push again, push after an insertion, pull; against peers, and against what core and disk need. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { atLeast, type Bench, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { childCommand } from '../child-process.ts';
import { pinned } from '../machine.ts';
import type { HashAndWriteResult } from '../peers/hash-and-write.ts';
import { listTreePeers, TREE_TOOL_PACKAGES } from '../peers/tree-tools.ts';
import {
  type Compared,
  compareTools,
  describePeaks,
  describeRequestsPerNode,
  describeSteps,
  pulledFolder,
  type StepTargets,
  TREE_ROUNDS,
} from '../trees/compare-tools.ts';
import { createHoldfastTool } from '../trees/holdfast-trees.ts';
import { runCommand } from '../trees/run-command.ts';
import { makeLargeFile } from '../trees/tree-input.ts';

export const PUSH_LARGE_ROW: Row = {
  name: 'push-large',
  packages: TREE_TOOL_PACKAGES,
  isQuickWithoutPeers: true,
  usual: { rounds: TREE_ROUNDS },
  run: (bench) => runUnpinned(bench, runPushLargeRow),
};

const MEBIBYTES = 1024;
/** restic's time is 1. */
const STEP_TARGETS: StepTargets = { first: 0.75, pull: 0.8 };
const QUICK_MEBIBYTES = 8;
const SPEED_MIN = 0.5;

async function runPushLargeRow(bench: Bench): Promise<readonly RowResult[]> {
  const folder = join(bench.folder, 'large-file');
  const mebibytes = bench.quick ? QUICK_MEBIBYTES : MEBIBYTES;
  const input = makeLargeFile(folder, mebibytes);
  const bounds: HashAndWriteResult[] = [];
  try {
    const compared = await compareTools(bench, {
      input,
      tools: [createHoldfastTool(bench), ...listTreePeers(bench)],
      beforeRound: async () => {
        bounds.push(await measureBound(bench, join(folder, 'large.bin')));
      },
    });
    const workload = `one file of ${mebibytes} MiB that nothing compresses`;
    return [
      ...describeSteps('push-large', workload, compared, STEP_TARGETS),
      describeBound(workload, mebibytes, compared, bounds),
      describeRequestsPerNode('push-large', compared.ours, [describeInsertion(compared)]),
      ...describePeaks('push-large', workload, compared.ours),
    ];
  } finally {
    for (const path of [folder, `${folder}-aside`, pulledFolder(input)])
      rmSync(path, { recursive: true, force: true });
  }
}

/** On one core, apart from the bench, with the file in the page cache. */
async function measureBound(bench: Bench, path: string): Promise<HashAndWriteResult> {
  const result = join(bench.folder, 'hash-and-write.json');
  const target = join(bench.folder, 'hash-and-write.bin');
  if (!bench.quick) await runCommand(['sync']);
  await runCommand(pinned(childCommand('hash-and-write', path, result, target), 0));
  const text = readFileSync(result, 'utf8');
  bench.record(`${text}\n`);
  return JSON.parse(text) as HashAndWriteResult;
}

function describeBound(
  workload: string,
  mebibytes: number,
  { ours }: Compared,
  bounds: readonly HashAndWriteResult[],
): RowResult {
  const parts = bounds.map(
    ({ hashMs, writeMs }) => `${(hashMs / 1000).toFixed(2)} + ${(writeMs / 1000).toFixed(2)} s`,
  );
  return {
    row: 'push-large-bound',
    workload: `first push: ${workload}`,
    target: atLeast(SPEED_MIN, 'the single-core SHA-256 + disk bound'),
    ours: {
      label: 'holdfast',
      unit: 'MiB/s',
      values: ours.first.map(({ elapsedMs }) => (mebibytes * 1000) / elapsedMs),
    },
    peer: {
      label: 'SHA-256 + disk',
      unit: 'MiB/s',
      values: bounds.map(({ hashMs, writeMs }) => (mebibytes * 1000) / (hashMs + writeMs)),
    },
    notes: [
      `the bound of each round: ${parts.join(', ')} for reading and hashing once on one core, then writing to one file with one fsync`,
      'a push reads and hashes twice (client and server check for themselves), copies through a socket, and fsyncs every pack',
    ],
  };
}

function describeInsertion({ ours }: Compared): string {
  const edited = ours.edited.map(({ requests, nodes }) => `${nodes} nodes in ${requests} requests`);
  return `after the insertion of 7 bytes in the middle: ${edited.join(', ')} (chunks, file index, folder)`;
}
