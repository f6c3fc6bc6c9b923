/** The real server at work while system calls fail: what it acknowledged holds afterwards, and nothing is half there. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { CrashRun } from '../../test/support/crash-run.ts';
import { straceFaults } from '../../test/support/strace.ts';
import { countInjected, drawFaults, isOfRuntime } from './draw-faults.ts';

const WANTED = { kinds: 5, firstMax: 60, everyMax: 60 };
const WORK_MS = 1_500;
const CLOCK_STEP_MS = 45_000;

export interface Faults {
  readonly injected: number;
  readonly found: readonly string[];
}

/** Rounds on one data folder, each with faults of its own, until `goesOn` says no. */
export async function runServeFaults(seed: number, goesOn: (injected: number) => boolean): Promise<Faults> {
  const run = new CrashRun(seed);
  const found: string[] = [];
  let injected = 0;
  let faults: readonly string[] = [];
  try {
    await run.prepare();
    while (goesOn(injected)) {
      faults = drawFaults(run.random, WANTED);
      const round = await workWithFaults(run, faults);
      injected += round.injected;
      if (round.wrong !== undefined) found.push(`serve, seed ${seed}, ${faults.join(' ')}: ${round.wrong}`);
      await run.start();
      await run.check();
      await run.server?.end('SIGTERM');
    }
  } catch (error) {
    const log = run.server?.log().slice(-1_000);
    found.push(`serve, seed ${seed}, after ${faults.join(' ')}: ${error}; ${log}`);
  } finally {
    await run.end();
  }
  return { injected, found };
}

async function workWithFaults(
  run: CrashRun,
  faults: readonly string[],
): Promise<{ readonly injected: number; readonly wrong: string | undefined }> {
  const trace = join(run.data, '..', 'trace');
  let log: string;
  try {
    const server = await run.start(straceFaults(trace, faults));
    let isOver = false;
    const working = run.work(() => isOver, true);
    await Promise.race([Bun.sleep(WORK_MS), server.ended()]);
    if (server.isRunning()) await server.end('SIGKILL');
    isOver = true;
    await working;
    log = server.log();
  } catch (error) {
    // It met one before it listened.
    log = String(error);
    if (!log.includes('the server did not start')) throw error;
  }
  run.offsetMs += CLOCK_STEP_MS;
  const injected = countInjected(trace);
  rmSync(trace, { force: true });
  const wrong = log.split('\n').find((line) => /\bunexpected\b/i.test(line) && !isOfRuntime(line));
  return { injected, wrong };
}
