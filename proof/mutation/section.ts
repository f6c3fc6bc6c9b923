/** The section: one guard after another is taken out, and a test must fail. What none notices is explained, or a test is missing. */
import { makeRandom } from '../../test/support/seeded-random.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { EXPLAINED } from './explained.ts';
import { type Guard, listGuards } from './guards.ts';
import { openMutants } from './take-out.ts';

/** Below this share tests are missing. */
const NOTICED_MIN = 0.95;
/** Fewer say nothing about the share. */
const GUARDS_MIN = 40;

export async function mutationSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const guards = listGuards().filter(({ id }) => EXPLAINED[id] === undefined);
  const mutants = openMutants();
  const unnoticed: string[] = [];
  let tried = 0;
  try {
    // The first piece: it is quick, which a guard need not be.
    if (!isOver() && !(await mutants.isSound())) throw new Error('tests fail although no guard is taken out');
    const random = makeRandom(seed);
    for (; guards.length > 0 && !isOver(); tried += 1) {
      const [guard] = guards.splice(random.below(guards.length), 1) as [Guard];
      if (!(await mutants.isNoticed(guard))) unnoticed.push(`no test notices the loss of ${guard.id}`);
    }
  } finally {
    mutants.remove();
  }
  const noticed = tried - unnoticed.length;
  const explained = Object.keys(EXPLAINED).length;
  const isEnough = tried < GUARDS_MIN || noticed >= NOTICED_MIN * tried;
  return {
    counts: { guards: tried, noticed, explained, left: guards.length },
    found: isEnough ? [] : unnoticed,
  };
}
