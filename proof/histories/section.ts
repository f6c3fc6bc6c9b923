/** The section: histories over each kind of deployment in turn. */
import type { SectionResult, SectionWork } from '../section.ts';
import { PLACES, type Place, runHistories } from './run-history.ts';

/** To start a server again takes the CPU of as many commits as a history has: histories share that. */
const WANTED = { spaces: 16, operations: 6_700, kills: 3, commits: 20 };
/** of all runs; a commit costs several times as much there */
const CLUSTER_EVERY = 25;
/** So that one ends within seconds where there is little time. */
const FIRST = { spaces: 1, operations: 120, kills: 1 };

export async function historiesSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const found: string[] = [];
  const counts = { histories: 0, commits: 0 };
  for (let runs = 0; !isOver(); runs += 1) {
    const isFirst = runs < PLACES.length;
    const isOfCluster = runs % CLUSTER_EVERY === CLUSTER_EVERY - 1;
    const turn = isOfCluster ? PLACES.length - 1 : runs % (isFirst ? PLACES.length : 2);
    const place = PLACES[turn] as Place;
    const size = isFirst ? FIRST : WANTED;
    const { wrong, commits } = await runHistories({ place, seed: seed + counts.histories, ...size });
    counts.histories += size.spaces;
    counts.commits += commits;
    found.push(...wrong);
  }
  return { counts, found };
}
