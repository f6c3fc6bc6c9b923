/** kill -9 of the real server at random moments of its work, in data folders side by side. */
import { CrashRun } from '../../test/support/crash-run.ts';
import type { SectionResult, SectionWork } from '../section.ts';

/** Each check reads all that was acknowledged, so a data folder takes longer from kill to kill. */
const KILLS_OF_A_FOLDER = 8;
/** of all clients together, 9 of which begin at once */
const STEPS_MAX = 90;
/** A server that starts or syncs leaves the cores to others. */
const LANES = 3;

export async function runKills({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  let [kills, folders] = [0, 0];
  const lane = async (): Promise<void> => {
    while (!isOver()) {
      const folder = seed + folders;
      folders += 1;
      const run = new CrashRun(folder);
      try {
        await run.prepare();
        for (let kill = 0; kill < KILLS_OF_A_FOLDER && (kill === 0 || !isOver()); kill += 1) {
          await run.workUntilKilled(STEPS_MAX);
          kills += 1;
        }
        await run.start();
        await run.check();
      } catch (error) {
        const log = run.server?.log().slice(-2_000);
        found.push(`--only kills --seed ${folder}, at another instant: ${error}; ${log}`);
      } finally {
        await run.end();
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return { counts: { 'kill -9': kills }, found };
}
