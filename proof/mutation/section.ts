/** The section: one guard after another is taken out, and a test must fail. What none notices is explained, or a test is missing. */
import { makeRandom } from '../../test/support/seeded-random.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { EXPLAINED } from './explained.ts';
import { type Guard, listGuards } from './guards.ts';
import { openMutants } from './take-out.ts';

export async function mutationSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const all = listGuards();
  const known = new Set(all.map(({ id }) => id));
  const found = Object.keys(EXPLAINED)
    .filter((id) => !known.has(id))
    .map((id) => `there is no such guard any more: ${id}`);
  const guards = all.filter(({ id }) => EXPLAINED[id] === undefined);
  const explained = all.length - guards.length;
  const mutants = openMutants(all);
  const random = makeRandom(seed);
  const noticed = { test: 0, 'type checker': 0 };
  let tried = 0;
  try {
    for (; guards.length > 0 && !isOver(); tried += 1) {
      const [guard] = guards.splice(random.below(guards.length), 1) as [Guard];
      const by = await mutants.whatNotices(guard);
      if (by === undefined) found.push(`no test notices the loss of ${guard.id}`);
      else noticed[by] += 1;
    }
  } finally {
    mutants.remove();
  }
  const counts = {
    guards: tried,
    'noticed by a test': noticed.test,
    'noticed by the type checker': noticed['type checker'],
    explained,
    left: guards.length,
  };
  return { counts, found };
}
