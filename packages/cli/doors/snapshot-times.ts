/** The names of snapshots as folders. */
import type { Snapshot } from '@holdfast/client/internal';

/** By the second that a snapshot was made in; where several share one, digits of the ID follow. */
export function nameTimes(snapshots: readonly Snapshot[]): ReadonlyMap<string, Snapshot> {
  const seconds = Map.groupBy(snapshots, ({ time }) => {
    const date = new Date(time);
    // A catalog may hold a time that no calendar has.
    if (Number.isNaN(date.getTime())) return `${time}ms`;
    const text = date.toISOString();
    return `${text.slice(0, text.indexOf('.')).replaceAll(':', '-')}Z`;
  });
  const named = [...seconds].flatMap(([second, all]) =>
    all.map((each) => [all.length > 1 ? `${second}-${each.id.slice(0, 8)}` : second, each] as const),
  );
  return new Map(named);
}
