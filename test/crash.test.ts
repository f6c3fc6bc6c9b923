/**
 * kill -9 of the real server at random moments of uploads, leases, commits and collections. After each restart the test checks
 * everything that was acknowledged, and recounts the database. It moves the clocks on, so that leases end and collections have
 * work.
 */
import { expect, test } from 'bun:test';
import { CrashRun, WORK_MS_MAX } from './support/crash-run.ts';
import { recount } from './support/embedded-recount.ts';
import { findDescendants, type ServerProcess } from './support/server-process.ts';

const KILLS = 24;
const WORKER_KILLS = 5;
/** Only ends what hangs. */
const WELL_MS_MAX = 180_000;

test.concurrent(
  `${KILLS} kills lose nothing acknowledged and leave nothing to repair`,
  async () => {
    const seed = Date.now() % 1_000_000;
    const run = new CrashRun(seed);
    try {
      await run.prepare();
      for (let kill = 0; kill < KILLS; kill += 1) {
        await run.workUntilKilled();
      }
      run.plantStray();
      await run.start();
      await run.check();
      await run.outliveUploads();
      await run.checkNothingLeftOver();
      await run.check();
      // A run in which nothing happened proves nothing.
      const { facts } = run;
      expect(facts.revision).toBeGreaterThan(KILLS);
      expect(facts.deletedReported).toBeGreaterThan(KILLS / 2);
      expect(facts.readyFacts().length).toBeGreaterThan(KILLS);
      expect(await run.server?.end('SIGTERM')).toBe(0);
      expect(recount(run.data).problems).toEqual([]);
    } catch (error) {
      console.error(`crash test: seed ${seed}; log of the last server:\n${run.server?.log().slice(-4000)}`);
      throw error;
    } finally {
      await run.end();
    }
  },
  15 * 60_000,
);

test.concurrent(
  `${WORKER_KILLS} kills of one worker of two: the server goes on and loses nothing`,
  async () => {
    const seed = Date.now() % 1_000_000;
    const run = new CrashRun(seed, ['--workers', '2']);
    try {
      await run.prepare();
      const server = await run.start();
      for (let kill = 0; kill < WORKER_KILLS; kill += 1) {
        let isStopped = false;
        const working = run.work(() => isStopped);
        await Bun.sleep(run.random.below(WORK_MS_MAX));
        const victim = run.random.pick(findDescendants(server.pid));
        if (victim === undefined) throw new Error('a server of two workers has no processes of its own');
        process.kill(victim, 'SIGKILL');
        await Bun.sleep(50);
        isStopped = true;
        await working;
        await waitUntilWell(server, 2);
        await run.check();
      }
      expect(server.isRunning()).toBe(true);
      await run.outliveUploads();
      await run.checkNothingLeftOver();
      expect(await run.server?.end('SIGTERM')).toBe(0);
    } catch (error) {
      console.error(`crash test of workers: seed ${seed}; log:\n${run.server?.log().slice(-4000)}`);
      throw error;
    } finally {
      await run.end();
    }
  },
  10 * 60_000,
);

/** All workers are back and each new connection is answered. */
async function waitUntilWell(server: ServerProcess, workers: number): Promise<void> {
  const deadline = Date.now() + WELL_MS_MAX;
  while (Date.now() < deadline) {
    if (findDescendants(server.pid).length >= workers) {
      const answers = await Promise.allSettled(
        Array.from({ length: 8 }, () => fetch(`${server.url}/health`, { keepalive: false })),
      );
      if (answers.every((answer) => answer.status === 'fulfilled' && answer.value.status === 200)) return;
    }
    await Bun.sleep(50);
  }
  throw new Error(`the workers did not come back: ${server.log().slice(-2000)}`);
}
