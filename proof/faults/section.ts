/** The section: the server at work, then commands, again and again, each time with other faults of system calls. */
import { ensureStrace } from '../../test/support/strace.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { runCommandFaults } from './command-faults.ts';
import { runServeFaults } from './serve-faults.ts';

/** Each check of a data folder reads all that was acknowledged. */
const FAULTS_OF_A_FOLDER = 300;

export async function faultsSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  let injected = 0;
  if (!(await ensureStrace())) return { counts: { injected }, found };
  const works = [runServeFaults, runCommandFaults];
  for (let round = 0; !isOver(); round += 1) {
    let isBegun = false;
    const goesOn = (done: number): boolean => {
      const isLeft = !isBegun || (done < FAULTS_OF_A_FOLDER && !isOver());
      isBegun = true;
      return isLeft;
    };
    const work = works[round % works.length] as typeof runServeFaults;
    const result = await work(seed + round, goesOn);
    injected += result.injected;
    found.push(...result.found);
  }
  return { counts: { injected }, found };
}
