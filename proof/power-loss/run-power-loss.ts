/** Power loss under the real server, and under commands that make something durable. */
import { makeRandom } from '../../test/support/seeded-random.ts';
import { ensureStrace } from '../../test/support/strace.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { makeBackupScenario, makePullScenario, makeRestoreScenario } from './command-scenarios.ts';
import { judgeImages, type Scenario } from './images.ts';
import { makeServeScenario } from './verify-serve.ts';

/** Then another run of the scenario has other traces. */
const IMAGES_OF_A_TRACE = 400;
const SCENARIOS: readonly ((seed: number) => Promise<Scenario>)[] = [
  makeServeScenario,
  makeBackupScenario,
  makeRestoreScenario,
  makePullScenario,
];

export async function runPowerLoss({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  const counts = { traces: 0, images: 0 };
  if (!(await ensureStrace())) return { counts, found };
  for (let round = 0; !isOver(); round += 1) {
    const make = SCENARIOS[round % SCENARIOS.length] as (typeof SCENARIOS)[number];
    const scenario = await make(seed + round);
    try {
      const random = makeRandom(seed + round);
      const result = await judgeImages(scenario, random, (done) => done < IMAGES_OF_A_TRACE && !isOver());
      counts.traces += 1;
      counts.images += result.images;
      found.push(...result.found);
    } finally {
      scenario.run.remove();
    }
  }
  return { counts, found };
}
