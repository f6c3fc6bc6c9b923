/** The head of a name: its latest snapshot. Pure. */
import { compareSnapshots, type Snapshot } from './catalog-format.ts';

export function findHead(snapshots: readonly Snapshot[], name: string): Snapshot | undefined {
  return snapshots
    .filter((snapshot) => snapshot.name === name)
    .sort(compareSnapshots)
    .at(-1);
}

/** The time of a snapshot that follows `head`, whatever the clock of its writer said. */
export function timeAfter(head: Snapshot | undefined, now: number): number {
  return Math.max(now, (head?.time ?? 0) + 1);
}
