/** Runs one load in a process of its own and measures what both sides spent. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import { childCommand, type ServerProcess } from '../child-process.ts';
import { pinned } from '../machine.ts';
import type { LoadResult, LoadSpec, RequestTemplate } from './spec.ts';
import { runWrk } from './wrk.ts';

export interface LoadSample extends LoadResult {
  readonly loader: 'wrk' | 'own';
  /** share of one core the server used meanwhile, 0…1 (more with several processes or threads unpinned) */
  readonly serverCpu: number;
}

/** Throws when anything went wrong on the way: a load with errors is not a measurement. */
export async function runLoad(
  bench: Bench,
  server: Pick<ServerProcess, 'cpuMs'>,
  spec: LoadSpec,
  loader: 'wrk' | 'own' = spec.flow.kind === 'fixed' && bench.hasWrk ? 'wrk' : 'own',
): Promise<LoadSample> {
  const cpuBefore = server.cpuMs();
  const result =
    loader === 'wrk'
      ? await runWrk(spec, { core: bench.cores?.load, folder: bench.folder, record: bench.record })
      : await runOwnLoader(bench, spec);
  // Over the time of the load alone: while the generator starts, the server has nothing to do.
  const sample: LoadSample = {
    ...result,
    loader,
    serverCpu: (server.cpuMs() - cpuBefore) / result.elapsedMs,
  };
  bench.record(`${JSON.stringify(sample)}\n`);
  if (Object.keys(result.errors).length > 0) {
    throw new Error(`The load met errors, so there is no measurement: ${JSON.stringify(result.errors)}`);
  }
  if (sample.done === 0)
    throw new Error('Nothing was answered within the time of a round: give --seconds more.');
  return sample;
}

/** Whom a load goes to, and whose CPU time it costs. */
export interface LoadedSide {
  readonly port: number;
  readonly process: Pick<ServerProcess, 'cpuMs'>;
}

/** The requests in turn, over all connections; each is answered with 200. */
export function loadFixed(
  bench: Bench,
  side: LoadedSide,
  requests: readonly RequestTemplate[],
  { connections = bench.connections, seconds = bench.seconds } = {},
): Promise<LoadSample> {
  const flow = { kind: 'fixed', requests, status: 200 } as const;
  return runLoad(bench, side.process, { port: side.port, connections, seconds, seed: 'fixed', flow });
}

async function runOwnLoader(bench: Bench, spec: LoadSpec): Promise<LoadResult> {
  const specPath = join(bench.folder, 'load-spec.json');
  const resultPath = join(bench.folder, 'load-result.json');
  writeFileSync(specPath, JSON.stringify(spec));
  rmSync(resultPath, { force: true });
  const command = childCommand('loader', specPath, resultPath);
  const child = Bun.spawn(pinned(command, bench.cores?.load), { stdout: 'inherit', stderr: 'pipe' });
  const problem = await new Response(child.stderr).text();
  if ((await child.exited) !== 0 || !existsSync(resultPath))
    throw new Error(`The load generator failed: ${problem}`);
  return JSON.parse(readFileSync(resultPath, 'utf8')) as LoadResult;
}
