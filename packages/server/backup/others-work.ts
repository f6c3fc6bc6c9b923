/** Measures the load by others during a backup: commits to the rows, and the time the copy waits for a CPU. */

import { readFileSync } from 'node:fs';
import { NS_PER_MS } from '@holdfast/protocol';

/** Each call returns the ms of pause due since the last call. */
export function watchOthers(countCommits: () => number): () => number {
  let commits = countCommits();
  let waitedMs = readWaitedMs();
  return () => {
    const [commitsNow, waitedNow] = [countCommits(), readWaitedMs()];
    // The counter of commits has 32 bits.
    const newCommits = (commitsNow - commits + 2 ** 32) % 2 ** 32;
    // From 50 commits a second on, the copy runs at the crowded pace. It waits for a CPU only if others use all of them.
    const restMs = newCommits * 20 + (waitedNow - waitedMs) * 5;
    [commits, waitedMs] = [commitsNow, waitedNow];
    return restMs;
  };
}

/** ms that this process waited for a CPU. If the system does not report it, only commits count. */
function readWaitedMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / NS_PER_MS || 0;
  } catch {
    return 0;
  }
}
