/** The section: the models as they are, then each of their mutants, then the large scopes. It is the same in each run, and ends when all is checked. */
import type { SectionResult, SectionWork } from '../section.ts';
import { openChecker } from './check-model.ts';
import { LARGE_SCOPES, MUTANTS, SCOPES, type Scope } from './scopes.ts';

export async function protocolSection({ isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  const counts: { states: number; mutants: number; left: number; [ofScope: `states of ${string}`]: number } =
    {
      ...{ states: 0, mutants: 0, left: 0 },
    };
  if (isOver()) return { counts, found };
  const checker = await openChecker();
  try {
    const checkAll = async (scopes: Readonly<Record<string, Scope>>): Promise<void> => {
      for (const [name, scope] of Object.entries(scopes)) {
        if (isOver()) break;
        const checked = await checker.check(scope, 0, isOver);
        if (checked === undefined) {
          counts.left += 1;
          continue;
        }
        const { states, isViolated } = checked;
        counts.states += states;
        // So that two runs are not taken for more than one.
        counts[`states of ${name}`] = states;
        if (isViolated) found.push(`the model itself is wrong: ${name}`);
      }
    };
    await checkAll(SCOPES);
    for (const [mutant, scope] of MUTANTS) {
      if (isOver()) break;
      const checked = await checker.check(SCOPES[scope], mutant, isOver);
      if (checked === undefined) break;
      counts.mutants += 1;
      if (!checked.isViolated) found.push(`nothing is wrong with MUTANT=${mutant}: ${scope}`);
    }
    await checkAll(LARGE_SCOPES);
  } finally {
    checker.remove();
  }
  return { counts, found };
}
