/** The settings of every row: how long, on which cores, in which folder, and where raw output goes. */
import { type Cores, pinSelf } from './machine.ts';

export interface Bench {
  /** pinned apart, or undefined on a machine with one core for us: reported with every result */
  readonly cores: Cores | undefined;
  /** scratch for servers' data, configs and logs; on the disk under test; removed at the end */
  readonly folder: string;
  /** A B pairs that count; one more runs first and is thrown away */
  readonly rounds: number;
  /** length of one side of one round */
  readonly seconds: number;
  readonly connections: number;
  /** smoke run: everything small, checks the machinery and not the speed */
  readonly quick: boolean;
  readonly hasWrk: boolean;
  /** sizes of the two Spaces that the scale row compares */
  readonly scaleNodes: { readonly small: number; readonly large: number };
  /** keep a CPU profile of our server in this folder */
  readonly profileFolder: string | undefined;
  /** appends to the raw record of the current row */
  readonly record: (text: string) => void;
  /** a result that could not be measured, and why, while the others of its row go on */
  readonly notRun: (result: string, reason: unknown) => void;
  /** what the person watching should see */
  readonly progress: (text: string) => void;
}

interface Target {
  /** the figure that is compared: a ratio (median of pairs) or a plain value */
  readonly figure: 'ratio' | 'value';
  readonly sense: 'at least' | 'at most';
  readonly bound: number;
  /** as the issue words it */
  readonly text: string;
}

export function atLeast(bound: number, text: string): Target {
  return { figure: 'ratio', sense: 'at least', bound, text: `≥ ${bound} × ${text}` };
}

export interface Side {
  readonly label: string;
  readonly unit: string;
  /** one per round */
  readonly values: readonly number[];
}

export interface RowResult {
  readonly row: string;
  readonly workload: string;
  /** absent when it is shown for comparison and nobody has set a bound */
  readonly target: Target | undefined;
  readonly ours: Side;
  /** absent when the target is a plain value */
  readonly peer: Side | undefined;
  /** more of them, shown and not judged */
  readonly others?: readonly Side[];
  /** notes a reader needs to judge the figure: CPU shares, what was counted */
  readonly notes: readonly string[];
}

export interface Row {
  readonly name: string;
  /** Debian packages the row cannot do without */
  readonly packages: readonly string[];
  /** The smoke run leaves out peers that are not installed. */
  readonly isQuickWithoutPeers?: boolean;
  /** what it is measured with unless the command line says */
  readonly usual?: Partial<Pick<Bench, 'rounds' | 'seconds'>>;
  readonly run: (bench: Bench) => Promise<readonly RowResult[]>;
}

/** Rounds of work whose single steps take long are this much longer, or too few would end within them. */
export const SLOW_ROUND_FACTOR = 3;

/** Runs A B, A B, …: one pair to warm up, then `rounds` that count. */
export async function interleave<A, B>(
  bench: Bench,
  a: (round: number) => Promise<A>,
  b: (round: number) => Promise<B>,
): Promise<{ a: A[]; b: B[] }> {
  const result: { a: A[]; b: B[] } = { a: [], b: [] };
  for (let round = 0; round <= bench.rounds; round++) {
    bench.record(`# round ${round === 0 ? 'warm-up' : round}\n`);
    const ofA = await a(round);
    const ofB = await b(round);
    if (round === 0) continue;
    result.a.push(ofA);
    result.b.push(ofB);
  }
  return result;
}

/** Servers, peers and load share all cores: sides of one process and of several get the same machine. */
export async function runUnpinned<T>(bench: Bench, run: (bench: Bench) => Promise<T>): Promise<T> {
  const { cores } = bench;
  if (cores !== undefined) pinSelf(cores.server, cores.load);
  try {
    return await run({ ...bench, cores: undefined });
  } finally {
    if (cores !== undefined) pinSelf(cores.load);
  }
}
