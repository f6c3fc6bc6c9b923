/** The scale-out engine with 1, 2 and 4 processes against what PostgreSQL and the S3 store do by themselves in the same run. */
import { type Bench, type Row, type RowResult, runUnpinned } from '../bench.ts';
import type { Cores } from '../machine.ts';
import { PROCESS_COUNTS, startEngines } from '../scaleout.ts';
import { comparePinnedReads, listContent, PINNED_ROW } from './scaleout-content.ts';
import { listRows } from './scaleout-rows.ts';
import { describeTrips, openStage, startServers } from './scaleout-stage.ts';

export const SCALEOUT_ROW: Row = {
  name: 'scaleout',
  packages: ['wrk', 'postgresql-15', 'radosgw'],
  // Seven comparisons for each number of processes: five rounds of 4 s would take twenty minutes.
  usual: { rounds: 3, seconds: 3 },
  run: (bench) => runUnpinned(bench, (unpinned) => runScaleoutRow(unpinned, bench.cores)),
};

/** Engines, servers and load share all cores, on our side as on the peer's; but for one row, with `cores` to pin to. */
async function runScaleoutRow(bench: Bench, cores: Cores | undefined): Promise<readonly RowResult[]> {
  const engines = await startEngines(bench);
  try {
    const stage = await openStage(bench, engines);
    const results: RowResult[] = [];
    for (const processes of bench.quick ? [1] : PROCESS_COUNTS) {
      bench.progress(`measuring scaleout with ${processes} …`);
      const ours = await startServers(bench, stage.deployment, processes);
      try {
        for (const [row, measure] of [
          ...listRows(stage, ours, processes),
          ...listContent(stage, ours, processes),
        ])
          results.push(...(await attempt(bench, row, measure)));
      } finally {
        await ours.close();
      }
    }
    if (cores !== undefined)
      results.push(...(await attempt(bench, PINNED_ROW, () => comparePinnedReads(stage, cores))));
    return results.map((result, index) =>
      index === 0 ? { ...result, notes: [...result.notes, describeTrips(stage)] } : result,
    );
  } finally {
    await engines.close();
  }
}

/** One that fails costs its own figure, not those of the quarter of an hour around it. */
async function attempt(bench: Bench, row: string, measure: () => Promise<RowResult>): Promise<RowResult[]> {
  try {
    return [await measure()];
  } catch (error) {
    bench.notRun(row, error);
    return [];
  }
}
