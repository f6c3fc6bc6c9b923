/** The table a reader sees, and the verdict per row. Pure. */
import type { RowResult, Side } from './bench.ts';
import type { MachineFacts } from './machine.ts';
import { formatNumber, pairRatios, type Summary, summarize } from './stats.ts';

export interface Verdict {
  readonly result: RowResult;
  /** the figure the target speaks of: median of the pairwise ratios, or median of the values */
  readonly figure: number;
  readonly ratios: Summary | undefined;
  readonly ours: Summary;
  readonly peer: Summary | undefined;
  /** ours against each of the result's other sides */
  readonly others: readonly { readonly side: Summary; readonly ratios: Summary }[];
  /** undefined without a target */
  readonly reached: boolean | undefined;
}

export interface Report {
  readonly commit: string;
  readonly startedAt: string;
  readonly settings: Readonly<Record<string, string | number | boolean>>;
  readonly machine: MachineFacts;
  readonly packages: Readonly<Record<string, string>>;
  readonly verdicts: readonly Verdict[];
  /** rows that could not be measured, and why */
  readonly notRun: readonly { readonly row: string; readonly reason: string }[];
}

export function judge(result: RowResult): Verdict {
  const { target, ours, peer } = result;
  const ratios = peer === undefined ? undefined : summarize(pairRatios(ours.values, peer.values));
  const isRatio = target === undefined ? peer !== undefined : target.figure === 'ratio';
  const figure = isRatio ? (ratios?.median ?? Number.NaN) : summarize(ours.values).median;
  const others = (result.others ?? []).map((side) => ({
    side: summarize(side.values),
    ratios: summarize(pairRatios(ours.values, side.values)),
  }));
  return {
    result,
    figure,
    ratios,
    ours: summarize(ours.values),
    peer: peer && summarize(peer.values),
    others,
    reached: target === undefined ? undefined : isReached(target, figure),
  };
}

function isReached({ sense, bound }: NonNullable<RowResult['target']>, figure: number): boolean {
  return sense === 'at least' ? figure >= bound : figure <= bound;
}

export function formatReport(report: Report): string {
  const { machine } = report;
  const lines = [
    `Holdfast bench, commit ${report.commit}, ${report.startedAt}`,
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Bun ${machine.bun}`,
    `data on ${machine.fileSystem}; 4 KiB write + fdatasync ${formatNumber(machine.fsyncMs)} ms; load average at start ${machine.loadAverage}`,
    Object.entries(report.settings)
      .map(([name, value]) => `${name} ${value}`)
      .join(', '),
    Object.entries(report.packages)
      .map(([name, version]) => `${name} ${version}`)
      .join(', '),
    'Values: median (min–max) of the rounds. Ratio: median (min–max) of the pairs, round by round.',
    '',
    ...report.verdicts.flatMap(formatVerdict),
    ...report.notRun.map(({ row, reason }) => `NOT RUN  ${row}: ${reason}`),
  ];
  return `${lines.join('\n')}\n`;
}

const VERDICT_WORDS: Readonly<Record<string, string>> = {
  true: 'REACHED',
  false: 'MISSED ',
  undefined: 'SHOWN  ',
};

function formatVerdict(verdict: Verdict): string[] {
  const { result, ratios, peer } = verdict;
  const target = result.target === undefined ? 'no target, for comparison' : `target ${result.target.text}`;
  const lines = [
    `${VERDICT_WORDS[String(verdict.reached)]}  ${result.row}: ${result.workload}`,
    `         ${target}; measured ${formatNumber(verdict.figure)}`,
    `         ${formatSide(result.ours, verdict.ours)}`,
  ];
  if (result.peer !== undefined && peer !== undefined)
    lines.push(`         ${formatSide(result.peer, peer)}`);
  if (ratios !== undefined) lines.push(`         ratio ${formatSpread(ratios)}`);
  for (const [index, { side, ratios: toSide }] of verdict.others.entries()) {
    const other = result.others?.[index];
    if (other !== undefined) lines.push(`         ${formatSide(other, side)}, ratio ${formatSpread(toSide)}`);
  }
  return [...lines, ...result.notes.map((note) => `         · ${note}`), ''];
}

function formatSide(side: Side, summary: Summary): string {
  return `${side.label} ${formatSpread(summary)} ${side.unit}`;
}

function formatSpread({ median, min, max }: Summary): string {
  return `${formatNumber(median)} (${formatNumber(min)}–${formatNumber(max)})`;
}
