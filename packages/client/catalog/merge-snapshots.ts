/** Several lists of snapshots as one. Pure. */
import { compareSnapshots, type Snapshot } from './catalog-format.ts';

/**
 * Every snapshot of any list once, by time. If two lists tell of one snapshot differently, the result is the same whichever
 * comes first: it is pinned if either says so, and else the first of the two in the order of their fields.
 */
export function mergeSnapshots(lists: readonly (readonly Snapshot[])[]): readonly Snapshot[] {
  const byId = new Map<string, Snapshot>();
  for (const snapshot of lists.flat()) {
    const other = byId.get(snapshot.id);
    byId.set(snapshot.id, other === undefined ? snapshot : mergeTwo(snapshot, other));
  }
  return [...byId.values()].sort(compareSnapshots);
}

function mergeTwo(a: Snapshot, b: Snapshot): Snapshot {
  const first = a.time < b.time || (a.time === b.time && JSON.stringify(a) <= JSON.stringify(b)) ? a : b;
  return a.pinned || b.pinned ? { ...first, pinned: true } : first;
}
