/** The real server at work while system calls fail: what it acknowledged holds afterwards, and nothing is half there. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { CrashRun } from '../../test/support/crash-run.ts';
import { attachFaults, straceFaults } from '../../test/support/strace.ts';
import { ALL_CALLS, countInjected, drawFaults, FILE_CALLS, isOfRuntime } from './draw-faults.ts';

const WANTED_FROM_START = { kinds: 5, firstMax: 60, everyMax: 60 };
/** A server that fails while it starts, or while it writes rows, seldom meets a second fault. */
const [FROM_START_SHARE, ROWS_SHARE] = [0.15, 0.3];
const WANTED_AT_WORK = { kinds: 5, firstMax: 20, everyMax: 40, calls: ALL_CALLS };
const WANTED_IN_FILES = { kinds: FILE_CALLS.length, firstMax: 2, everyMax: 2, calls: FILE_CALLS };
/** of all clients together */
const STEPS = 800;
/** Only ends what hangs: a client that is refused comes again. */
const WORK_MS_MAX = 30_000;
const POLL_MS = 5;
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
      const isFromStart = run.random.chance(FROM_START_SHARE);
      const atWork = run.random.chance(ROWS_SHARE) ? WANTED_AT_WORK : WANTED_IN_FILES;
      faults = drawFaults(run.random, isFromStart ? WANTED_FROM_START : atWork);
      const round = await workWithFaults(run, faults, isFromStart);
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
  isFromStart: boolean,
): Promise<{ readonly injected: number; readonly wrong: string | undefined }> {
  const trace = join(run.data, '..', 'trace');
  let log: string;
  try {
    const server = await run.start(isFromStart ? straceFaults(trace, faults) : []);
    if (!isFromStart) await attachFaults(server.pid, trace, faults);
    let isOver = false;
    let steps = 0;
    const working = run.work(() => {
      steps += 1;
      return isOver;
    }, true);
    const endsAt = performance.now() + WORK_MS_MAX;
    while (steps < STEPS && server.isRunning() && performance.now() < endsAt) await Bun.sleep(POLL_MS);
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
