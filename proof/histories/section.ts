/** The section: histories over each kind of deployment in turn. */
import type { SectionResult, SectionWork } from '../section.ts';
import { PLACES, type Place, runHistory } from './run-history.ts';

const WANTED = { operations: 2_000, kills: 3 };
/** So that one ends within seconds where there is little time. */
const FIRST = { operations: 120, kills: 1 };

export async function historiesSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  const counts = { histories: 0, commits: 0 };
  for (; !isOver(); counts.histories += 1) {
    const place = PLACES[counts.histories % PLACES.length] as Place;
    const size = counts.histories < PLACES.length ? FIRST : WANTED;
    const { wrong, commits } = await runHistory({ place, seed: seed + counts.histories, ...size });
    counts.commits += commits;
    found.push(...wrong);
  }
  return { counts, found };
}
