/** Entries whose content stands there already: they get what else the tree says of them, and their content is not written again. */
import type { DirectoryEntry } from '../format/tree-format.ts';
import { formatPath } from '../walk/tree-path.ts';
import type { WalkedEntry } from '../walk/walk-tree.ts';
import type { CheckedTarget } from './check-target.ts';
import { type FoundEntry, type PullTarget, PullTargetError } from './target.ts';

/** Sets the mode and the time that were found to be wrong; false when neither was. */
export function repairEntry(
  target: PullTarget,
  { path, entry, ordinal }: Pick<WalkedEntry, 'path' | 'entry' | 'ordinal'>,
  { wrongMode, wrongTime }: CheckedTarget,
): boolean {
  const setsMode = wrongMode.has(ordinal);
  const setsTime = wrongTime.has(ordinal);
  if (!setsMode && !setsTime) return false;
  // The time of the tree would hide from other programs that the file was changed since it was compared.
  if (!mayBeSame(target.find(path), entry)) {
    throw new PullTargetError(
      `${formatPath(path)} has changed while pulling: run the same command again, and it is compared again`,
    );
  }
  if (setsMode) target.setExecutable(path, entry.isExecutable);
  if (setsTime && entry.mtimeNs !== undefined) target.setTime(path, entry.mtimeNs);
  return true;
}

function mayBeSame(found: FoundEntry | undefined, { kind, bytes }: DirectoryEntry): boolean {
  if (kind === 'symlink') return found?.linkTarget?.length === bytes;
  return found?.kind === 'file' && found.bytes === bytes;
}
