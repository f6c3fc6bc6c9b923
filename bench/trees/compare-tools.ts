/** First push, unchanged push, push of a small change, pull: each by every tool in turn, on the same input. */
import { closeSync, mkdirSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, RowResult, Side } from '../bench.ts';
import { childCommand } from '../child-process.ts';
import { formatNumber, median } from '../stats.ts';
import { runCommand } from './run-command.ts';
import type { TreeInput } from './tree-input.ts';
import type { ToolRun, TreeTool } from './tree-tool.ts';

const STEPS = ['first', 'unchanged', 'edited', 'pull'] as const;
type Step = (typeof STEPS)[number];

/** Runs of one tool, per step one per round. */
export type StepRuns = Readonly<Record<Step, readonly ToolRun[]>>;

export interface Compared {
  readonly ours: StepRuns;
  readonly tools: readonly { readonly tool: TreeTool; readonly runs: StepRuns }[];
}

export interface CompareOptions {
  readonly input: TreeInput;
  /** default: the bench's */
  readonly rounds?: number;
  /** Ours is the first. */
  readonly tools: readonly TreeTool[];
  /** Called before the first push of each round. */
  readonly beforeRound?: (round: number) => Promise<void>;
}

/** A file may have changed within the tick of its own time; tools read such files again. */
const SETTLE_MS = 1_200;
const PIECE_BYTES = 1024 * 1024;
const PEAK_MIB_MAX = 200;
const SERVER_PEAK_MIB_MAX = 300;
const DISK_RATIO_MAX = 1.05;
export const REQUESTS_PER_NODE_MAX = 4;
/** Each of its steps takes long. */
export const TREE_ROUNDS = 2;

/** The first tool of one round is the last of the next, because the tool before may slow it down. */
function orderOf(tools: readonly TreeTool[], round: number): readonly TreeTool[] {
  return round % 2 === 1 ? tools : tools.toReversed();
}

/** Step by step, tool after tool, round after round. Our pulls are compared with the input, byte by byte. */
export async function compareTools(bench: Bench, options: CompareOptions): Promise<Compared> {
  const { input, tools, rounds = bench.rounds } = options;
  const runs = new Map(tools.map((tool) => [tool, emptyRuns()]));
  for (let round = 1; round <= rounds; round++) {
    bench.record(`# round ${round}\n`);
    await options.beforeRound?.(round);
    try {
      for (const tool of tools) await tool.begin();
      for (const step of STEPS) {
        if (step === 'edited') input.edit(round);
        if (step === 'first' || step === 'edited') {
          readAll(input.folder);
          if (!bench.quick) await Bun.sleep(SETTLE_MS);
        }
        for (const tool of orderOf(tools, round)) {
          const ran = await runStep(bench, tool, step, { input, round });
          const run = step === 'first' ? { ...ran, storedBytes: await diskBytesOf(tool.store()) } : ran;
          runs.get(tool)?.[step].push(run);
          const { elapsedMs, cpuMs, peakMiB, serverCpuMs, serverPeakMiB, requests, nodes, storedBytes } = run;
          const line = {
            tool: tool.name,
            step,
            done: true,
            elapsedMs,
            cpuMs,
            peakMiB,
            serverCpuMs,
            serverPeakMiB,
            requests,
            nodes,
            storedBytes,
          };
          bench.record(`${JSON.stringify(line)}\n`);
        }
      }
    } finally {
      for (const tool of tools) await tool.end();
      input.reset();
    }
  }
  const all = tools.map((tool) => ({ tool, runs: runs.get(tool) ?? emptyRuns() }));
  return { ours: all[0]?.runs ?? emptyRuns(), tools: all };
}

interface StepPlace {
  readonly input: TreeInput;
  readonly round: number;
}

async function runStep(
  bench: Bench,
  tool: TreeTool,
  step: Step,
  { input, round }: StepPlace,
): Promise<ToolRun> {
  if (!bench.quick) {
    // The writes of one tool are on the disk before the next begins, and each finds free memory.
    await runCommand(['sync']);
    await runCommand(childCommand('touch-memory'));
  }
  if (step !== 'pull') return tool.push(input.folder);
  const pulled = pulledFolder(input);
  mkdirSync(pulled, { recursive: true });
  const target = join(pulled, `${tool.name}-${round}`);
  const run = await tool.pull(target, input.folder);
  if (tool.name === 'holdfast') await runCommand(['diff', '-r', '--no-dereference', input.folder, target]);
  return run;
}

/**
 * Where what was pulled stays until the bench ends. For up to six minutes after many files were removed, ext4 passes over their
 * inodes one by one for each new file, and the next tool would pay for it.
 */
export function pulledFolder(input: TreeInput): string {
  return `${input.folder}-pulled`;
}

/** The bytes of a folder on the disk. */
export async function diskBytesOf(folder: string): Promise<number> {
  const { stdout } = await runCommand(['du', '--summarize', '--block-size=1', folder]);
  return Number.parseInt(stdout, 10);
}

function emptyRuns(): Record<Step, ToolRun[]> {
  return { first: [], unchanged: [], edited: [], pull: [] };
}

/** Brings the input into the page cache, where every tool finds it. */
function readAll(folder: string): void {
  const piece = new Uint8Array(PIECE_BYTES);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = openSync(join(entry.parentPath, entry.name), 'r');
    while (readSync(file, piece) > 0);
    closeSync(file);
  }
}

const STEP_TEXTS: Readonly<Record<Step, string>> = {
  first: 'first push',
  unchanged: 'push again, nothing changed',
  edited: 'push again after a small change',
  pull: 'pull into an empty place',
};

/** The most that a step may take of the first peer's time. */
export type StepTargets = Partial<Readonly<Record<Step, number>>>;

/** A row per step: seconds of ours against each peer; a step without a target is for comparison. */
export function describeSteps(
  row: string,
  workload: string,
  { ours, tools }: Compared,
  targets: StepTargets = {},
): RowResult[] {
  const [, ...peers] = tools;
  return STEPS.map((step) => {
    const side = (label: string, runs: StepRuns): Side => ({
      label,
      unit: 's',
      values: runs[step].map(({ elapsedMs }) => elapsedMs / 1000),
    });
    const [first, ...others] = peers.map(({ tool, runs }) => side(tool.name, runs));
    return {
      row: `${row}-${step}`,
      workload: `${STEP_TEXTS[step]}: ${workload}`,
      target: first && atMost(targets[step], `${first.label}’s time`),
      ours: side('holdfast', ours),
      peer: first,
      others,
      notes: [
        tools.map(({ tool, runs }) => `${tool.name} ${describeCost(runs[step])}`).join('; '),
        ...(step === 'first' ? tools.map(({ tool }) => tool.note) : []),
      ],
    };
  });
}

function atMost(bound: number | undefined, text: string): RowResult['target'] {
  return bound === undefined
    ? undefined
    : { figure: 'ratio', sense: 'at most', bound, text: `≤ ${bound} × ${text}` };
}

/** The bytes on the disk after the first push, against each peer. */
export function describeDisk(row: string, workload: string, { ours, tools }: Compared): RowResult {
  const side = (label: string, runs: StepRuns): Side => ({
    label,
    unit: 'MiB',
    values: runs.first.map(({ storedBytes = Number.NaN }) => storedBytes / 2 ** 20),
  });
  const [first, ...others] = tools.slice(1).map(({ tool, runs }) => side(tool.name, runs));
  return {
    row: `${row}-disk`,
    workload: `bytes on the disk after the first push: ${workload}`,
    target: first && atMost(DISK_RATIO_MAX, `what ${first.label} takes`),
    ours: side('holdfast', ours),
    peer: first,
    others,
    notes: ['blocks of the whole store (du), database and its log included'],
  };
}

/** The most that our server had in memory over all steps of all rounds. */
export function describeServerMemory(row: string, workload: string, ours: StepRuns): RowResult {
  const peaks = STEPS.flatMap((step) => ours[step].map(({ serverPeakMiB = Number.NaN }) => serverPeakMiB));
  return describeMost(
    `${row}-server-memory`,
    `highest resident memory of the server meanwhile: ${workload}`,
    SERVER_PEAK_MIB_MAX,
    {
      values: peaks,
      unit: 'MiB',
      text: `≤ ${SERVER_PEAK_MIB_MAX} MiB`,
    },
  );
}

function describeCost(runs: readonly ToolRun[]): string {
  const middle = (pick: (run: ToolRun) => number): string => formatNumber(median(runs.map(pick)));
  const server = runs.some((run) => run.serverCpuMs !== undefined)
    ? ` + server ${middle((run) => (run.serverCpuMs ?? 0) / 1000)} s`
    : '';
  return `CPU ${middle((run) => run.cpuMs / 1000)} s${server}, ${middle((run) => run.peakMiB)} MiB`;
}

/** A row for a plain value of ours that must not go above `bound`: the highest there was. */
export function describeMost(
  row: string,
  workload: string,
  bound: number,
  {
    values,
    unit,
    text,
    notes = [],
  }: { values: readonly number[]; unit: string; text: string; notes?: string[] },
): RowResult {
  return {
    row,
    workload,
    target: { figure: 'value', sense: 'at most', bound, text },
    ours: { label: 'holdfast', unit, values: [Math.max(...values)] },
    peer: undefined,
    notes,
  };
}

/** Requests per node that was new to the server, of the pushes that brought some. */
export function describeRequestsPerNode(
  row: string,
  { first, edited }: StepRuns,
  notes: string[] = [],
): RowResult {
  return describeMost(
    `${row}-requests`,
    'requests per node the server lacked, first and edited push',
    REQUESTS_PER_NODE_MAX,
    {
      values: [...first, ...edited].map(
        ({ requests = Number.NaN, nodes = 0 }) => requests / Math.max(1, nodes),
      ),
      unit: 'requests/node',
      text: `≤ ${REQUESTS_PER_NODE_MAX} per changed node`,
      notes,
    },
  );
}

/** Peaks of all pushes, and of all pulls, as rows. */
export function describePeaks(row: string, workload: string, ours: StepRuns): RowResult[] {
  const peaksOf = (steps: readonly Step[]) =>
    steps.flatMap((step) => ours[step].map(({ peakMiB }) => peakMiB));
  const text = `≤ ${PEAK_MIB_MAX} MiB`;
  return [
    describeMost(`${row}-push-memory`, `highest resident memory of push: ${workload}`, PEAK_MIB_MAX, {
      values: peaksOf(['first', 'unchanged', 'edited']),
      unit: 'MiB',
      text,
    }),
    describeMost(`${row}-pull-memory`, `highest resident memory of pull: ${workload}`, PEAK_MIB_MAX, {
      values: peaksOf(['pull']),
      unit: 'MiB',
      text,
    }),
  ];
}
