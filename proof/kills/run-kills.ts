/** kill -9 of the real server at random moments of its work, one data folder after another. */
import { CrashRun } from '../../test/support/crash-run.ts';
import type { SectionResult, SectionWork } from '../section.ts';

/** Each check reads all that was acknowledged, so a data folder takes longer from kill to kill. */
const KILLS_OF_A_FOLDER = 40;

export async function runKills({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  let kills = 0;
  for (let folder = 0; !isOver(); folder += 1) {
    const run = new CrashRun(seed + folder);
    try {
      await run.prepare();
      for (let kill = 0; kill < KILLS_OF_A_FOLDER && !isOver(); kill += 1) {
        await run.workUntilKilled();
        kills += 1;
      }
      await run.start();
      await run.check();
    } catch (error) {
      const log = run.server?.log().slice(-2_000);
      found.push(`--only kills --seed ${seed + folder}, at another instant: ${error}; ${log}`);
    } finally {
      await run.end();
    }
  }
  return { counts: { 'kill -9': kills }, found };
}
