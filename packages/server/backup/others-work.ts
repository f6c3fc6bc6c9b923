/** How much others work while a backup is made: by the commits to the rows, and by how long the copy itself waits for a processor. */

import { readFileSync } from 'node:fs';
import { NS_PER_MS } from '@holdfast/protocol';

/** ms of rest for each commit: from 50 in a second on, the copy keeps the pace of a crowd */
const REST_MS_PER_COMMIT = 20;
/** The copy has the lowest priority, so it waits for a processor only if others want all of them. */
const REST_PER_WAIT = 5;
/** The counter of commits has 32 bits. */
const COUNTER_VALUES = 2 ** 32;

/** Each call returns the ms of rest that others have earned since the last one. */
export function watchOthers(countCommits: () => number): () => number {
  let commits = countCommits();
  let waitedMs = readWaitedMs();
  return () => {
    const [commitsNow, waitedNow] = [countCommits(), readWaitedMs()];
    const newCommits = (commitsNow - commits + COUNTER_VALUES) % COUNTER_VALUES;
    const restMs = newCommits * REST_MS_PER_COMMIT + (waitedNow - waitedMs) * REST_PER_WAIT;
    [commits, waitedMs] = [commitsNow, waitedNow];
    return restMs;
  };
}

/** ms that this process waited for a processor; a system that does not tell leaves the commits to go by. */
function readWaitedMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / NS_PER_MS || 0;
  } catch {
    return 0;
  }
}
