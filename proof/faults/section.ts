/** The section: the server at work, then commands, again and again, each time with other faults of system calls. */
import { ensureStrace } from '../../test/support/strace.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { runCommandFaults } from './command-faults.ts';
import { runServeFaults } from './serve-faults.ts';

/** Each check of a data folder reads all that was acknowledged. */
const FAULTS_OF_A_FOLDER = 300;

/** Rounds of the server, whose faults are cheaper, for one of the commands. */
const SERVED_ROUNDS = 3;
const LANES = 3;

export async function faultsSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  let [injected, rounds] = [0, 0];
  if (!(await ensureStrace())) return { counts: { injected }, found };
  const lane = async (): Promise<void> => {
    while (!isOver()) {
      const round = rounds;
      rounds += 1;
      let isBegun = false;
      const goesOn = (done: number): boolean => {
        const isLeft = !isBegun || (done < FAULTS_OF_A_FOLDER && !isOver());
        isBegun = true;
        return isLeft;
      };
      const work = round % (SERVED_ROUNDS + 1) < SERVED_ROUNDS ? runServeFaults : runCommandFaults;
      const result = await work(seed + round, goesOn);
      injected += result.injected;
      found.push(...result.found);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return { counts: { injected }, found };
}
