/** Random sequences of commands against the reference model, over the ways in which an embedded engine runs, in turn. */
import fc from 'fast-check';
import { sequencesOf } from '../../test/model/describe-model.ts';
import { makeEmbeddedUnderTest } from '../../test/model/embedded-under-test.ts';
import type { SectionResult, SectionWork } from '../section.ts';

const STEPS_MAX = 60;
const SEQUENCES_OF_A_PIECE = 5;
const WAYS = [
  { file: 'embedded', workers: 1, hasPacks: false },
  { file: 'embedded', workers: 2, hasPacks: false },
  { file: 'packs', workers: 1, hasPacks: true },
];

export async function runModel({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  let sequences = 0;
  for (let piece = 0; !isOver(); piece += 1) {
    const { file, workers, hasPacks } = WAYS[piece % WAYS.length] as (typeof WAYS)[number];
    const makeEngine = () => makeEmbeddedUnderTest(workers, { recounts: hasPacks });
    const { numRuns, failed, counterexamplePath, errorInstance } = await fc.check(
      sequencesOf(makeEngine, { stepsMax: STEPS_MAX, hasPacks }),
      { seed: seed + piece, numRuns: SEQUENCES_OF_A_PIECE, endOnFailure: true },
    );
    sequences += numRuns;
    if (!failed) continue;
    const again = `MODEL_SEED=${seed + piece} MODEL_PATH=${counterexamplePath} npm test -- test/model/${file}.test.ts`;
    found.push(`${again}: ${errorInstance}`);
  }
  return { counts: { sequences }, found };
}
