/** The section: histories over each kind of deployment in turn. */
import type { SectionResult, SectionWork } from '../section.ts';
import { PLACES, type Place, runHistory } from './run-history.ts';

const WANTED = { operations: 6_700, kills: 3, commits: 20 };
/** It has engines of its own, which take longer to start than all the rest of a history. */
const CLUSTER_EVERY = 25;
/** So that one ends within seconds where there is little time. */
const FIRST = { operations: 120, kills: 1 };

export async function historiesSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  const counts = { histories: 0, commits: 0 };
  for (; !isOver(); counts.histories += 1) {
    const isFirst = counts.histories < PLACES.length;
    const isOfCluster = counts.histories % CLUSTER_EVERY === CLUSTER_EVERY - 1;
    const turn = isOfCluster ? PLACES.length - 1 : counts.histories % (isFirst ? PLACES.length : 2);
    const place = PLACES[turn] as Place;
    const size = isFirst ? FIRST : WANTED;
    const { wrong, commits } = await runHistory({ place, seed: seed + counts.histories, ...size });
    counts.commits += commits;
    found.push(...wrong);
  }
  return { counts, found };
}
