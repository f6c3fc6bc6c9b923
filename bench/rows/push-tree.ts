/** A folder of many files: push, push again, push after one change, pull; requests counted, memory watched. */
import { join } from 'node:path';
import { type Bench, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { listTreePeers, TREE_TOOL_PACKAGES } from '../peers/tree-tools.ts';
import {
  type Compared,
  compareTools,
  describeDisk,
  describeMost,
  describePeaks,
  describeRequestsPerNode,
  describeServerMemory,
  describeSteps,
  REQUESTS_PER_NODE_MAX,
  type StepTargets,
  TREE_ROUNDS,
} from '../trees/compare-tools.ts';
import { createHoldfastTool } from '../trees/holdfast-trees.ts';
import { makeManyFiles, makeRealFiles, type TreeInput } from '../trees/tree-input.ts';

export const PUSH_TREE_ROW: Row = {
  name: 'push-tree',
  packages: TREE_TOOL_PACKAGES,
  isQuickWithoutPeers: true,
  usual: { rounds: TREE_ROUNDS },
  run: (bench) => runUnpinned(bench, runPushTreeRow),
};

const FILES = 10_000;
const MEMORY_FILES = 100_000;
/** An unchanged tree needs one lease of its root. */
const REQUESTS_UNCHANGED_MAX = 2;
/** Small nodes travel in packs. */
const REQUESTS_FIRST_MAX = 0.02;
/** restic's time is 1. */
const STEP_TARGETS: StepTargets = { first: 0.8, unchanged: 0.3, edited: 0.3, pull: 0.6 };

async function runPushTreeRow(bench: Bench): Promise<readonly RowResult[]> {
  const ours = createHoldfastTool(bench);
  const input = makeManyFiles(join(bench.folder, 'many-files'), bench.quick ? 60 : FILES);
  const compared = await compareTools(bench, {
    input,
    tools: [ours, ...listTreePeers(bench)],
  });
  const workload = describeInput(input);
  return [
    ...describeSteps('push-tree', workload, compared, STEP_TARGETS),
    describeDisk('push-tree', workload, compared),
    ...describeRequests(input, compared),
    ...describePeaks('push-tree', workload, compared.ours),
    describeServerMemory('push-tree', workload, compared.ours),
    ...(await measureRealFiles(bench)),
    ...(await measureManyFiles(bench)),
  ];
}

/** Documentation and packages of this machine: real names, real sizes, text that compresses. */
async function measureRealFiles(bench: Bench): Promise<RowResult[]> {
  const input = makeRealFiles(join(bench.folder, 'real-files'), bench.quick ? 60 : FILES);
  const compared = await compareTools(bench, {
    input,
    tools: [createHoldfastTool(bench), ...listTreePeers(bench)],
  });
  const workload = `${input.files} files of this machine, ${Math.round(input.bytes / 2 ** 20)} MiB, documentation and packages`;
  return [
    ...describeSteps('push-real', workload, compared, STEP_TARGETS),
    describeDisk('push-real', workload, compared),
    ...describePeaks('push-real', workload, compared.ours),
    describeServerMemory('push-real', workload, compared.ours),
  ];
}

/** Memory on a tree that is ten times as wide; nothing to compare with, so it runs once. */
async function measureManyFiles(bench: Bench): Promise<RowResult[]> {
  const input = makeManyFiles(join(bench.folder, 'more-files'), bench.quick ? 120 : MEMORY_FILES, true);
  const compared = await compareTools(bench, { input, rounds: 1, tools: [createHoldfastTool(bench)] });
  return describePeaks('push-tree-wide', `${input.files} files of 64 bytes`, compared.ours);
}

function describeInput({ files, bytes }: TreeInput): string {
  return `${files} files, ${Math.round(bytes / 2 ** 20)} MiB, as a source tree has them`;
}

function describeRequests({ depth }: TreeInput, { ours }: Compared): RowResult[] {
  const requests = (runs: readonly { readonly requests?: number }[]): number[] =>
    runs.map((run) => run.requests ?? Number.NaN);
  const editedMax = depth * REQUESTS_PER_NODE_MAX;
  return [
    describeRequestsPerNode('push-tree', ours),
    describeMost('push-tree-requests-first', 'requests for each node of the first push', REQUESTS_FIRST_MAX, {
      values: ours.first.map(({ requests = Number.NaN, nodes = 0 }) => requests / Math.max(1, nodes)),
      unit: 'requests/node',
      text: `≤ ${REQUESTS_FIRST_MAX} for each small node`,
    }),
    describeMost(
      'push-tree-requests-unchanged',
      'requests of a push without changes',
      REQUESTS_UNCHANGED_MAX,
      {
        values: requests(ours.unchanged),
        unit: 'requests',
        text: `O(1): ≤ ${REQUESTS_UNCHANGED_MAX}, whatever the tree`,
      },
    ),
    describeMost('push-tree-requests-edited', 'requests of a push after one file changed', editedMax, {
      values: requests(ours.edited),
      unit: 'requests',
      text: `O(depth): ≤ ${REQUESTS_PER_NODE_MAX} for each of the ${depth} nodes from the root to the file`,
    }),
  ];
}
